"""The packed layout of weights: formats, tiles, and how GGUF blocks become them."""
