"""Adapters in the form of LoRA, read from files: for a bundle, or for a directory to merge them with."""
