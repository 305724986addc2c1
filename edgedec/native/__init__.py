"""The native engine: EdgeDec in one library without Python, called through kernels/engine/edgedec.h.

Its tokens are those of ``edgedec.open``. It is what programs in other languages and phones embed.
"""
