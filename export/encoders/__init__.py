"""Exports models that make vectors or scores of whole texts; a pass computes several, one behind the other.

- ``sizes.py``: sizes and options of the BERT family
- ``bert.py``: its graph
- ``ends.py``: from hidden states to vectors or scores, for every architecture
- ``bert_source.py``: weights of a Hugging Face directory by their names in GGUF files
- ``modern.py``: ModernBERT and NomicBERT: sizes of a directory, names of tensors, the ranking head
- ``sentence.py``: what a directory says beside its weights: pooling, prompts, the longest text
- ``bundle.py``: the bundle; ``directory.py``: one of a Hugging Face directory
"""
