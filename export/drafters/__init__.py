"""Drafters in files of others, and in the folders that EdgeDec reads: one reader, writer and judge for all.

kinds.py     which kinds there are, and the kind that a file or a folder holds
interface.py the parts that differ by kind: a class of each kind implements them
agreement.py how often a drafter has to agree with its target
check.py     the same of those that lie in a model's own file
bundle.py    writes the folder of a drafter: graph, weights and drafter.json
install.py   converts a drafter, and installs it where it agrees with its model
gguf.py      writes a drafter as a GGUF file for llama.cpp
sources.py   sources of weights that drafters are made of

A new kind is a class that implements ``DrafterFiles`` and a line in ``kinds.KINDS``.
"""
