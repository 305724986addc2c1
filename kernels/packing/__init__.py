"""The packed layout of weights: formats, tiles, and the conversion from GGUF blocks (C++: ``formats.h``)."""
