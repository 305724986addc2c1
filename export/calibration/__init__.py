"""Quantises floats; errors are weighed by the inputs that the weights are multiplied with.

search.py    finds the scales of 4- and 5-bit groups by search
evaluate.py  runs the graph of a model in NumPy floats
moments.py   measures the size of each matrix's inputs on a sample of text
"""
