"""The programs that run inside the workers of ``edgedec bench``.

``harness/serve.py`` runs in the interpreter of one side, which need not have EdgeDec installed, and loads one
file of this folder by path. These files therefore import neither EdgeDec nor each other. The exception is the
program of EdgeDec itself, which runs where EdgeDec is installed.
"""
