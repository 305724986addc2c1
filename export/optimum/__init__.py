"""Export with optimum of a Hugging Face model whose architecture EdgeDec does not build itself.

worker.py    runs optimum, and compares its graph with the model, in a process of its own
graph.py     puts EdgeDec's head at the end of the graph
exporter.py  all of it into a bundle
"""
