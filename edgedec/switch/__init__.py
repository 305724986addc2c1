"""Decoding with two models that take turns: a small one, and a large one where the text is hard."""
