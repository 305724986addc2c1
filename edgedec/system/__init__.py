"""The operating system: nothing else in the package asks which one it is, or calls what only one of them has.

A module without a system's name chooses among those with one. They state the same functions.
"""
