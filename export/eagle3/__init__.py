"""Reads EAGLE-3 heads of other trainers, and turns them into drafting heads.

config.py    sizes, norms and layers by config.json     pickled.py    tensors of pytorch_model.bin
names.py     the names that each trainer gives tensors  reading.py    a directory as the weights of a head
gguf.py      the same from a GGUF file of llama.cpp      agreement.py  how often a head agrees with its target
files.py     all of it, as every kind of drafter has it
"""
