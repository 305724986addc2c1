"""The programs that run inside the workers of ``edgedec bench``.

``serve.py`` is started by path with the interpreter of one side, which need not have EdgeDec installed; it
loads one other file of this directory by path. So these files import nothing of EdgeDec (but the one for
EdgeDec itself, which runs where EdgeDec is installed), and not each other.
"""
