"""Quantising floats, weighted by the inputs that they are multiplied with.

search.py    groups of 4 and 5 bits by search      evaluate.py  the graph of a model in NumPy floats
moments.py   how large each matrix's inputs are on a sample of text
"""
