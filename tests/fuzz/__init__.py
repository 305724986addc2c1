"""Damaged and hostile versions of every file that EdgeDec reads.

    python -m tests.fuzz --inputs 100000 --seconds 600 --seed 0 [--target gguf]

``targets`` says what is read and how, ``mutate*`` damage it with knowledge of its structure, ``worker`` feeds
inputs to EdgeDec in a process with a limited address space, ``campaign`` keeps the workers busy and watches
them. An input is a function of (seed, target, index), so that a finding can be had again.
"""
