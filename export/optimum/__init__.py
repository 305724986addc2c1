"""Exports, with optimum, Hugging Face models of architectures that EdgeDec does not build itself.

worker.py    runs optimum in a process of its own, and compares its graph with the model
graph.py     puts EdgeDec's head at the end of the graph
exporter.py  writes the bundle
"""
