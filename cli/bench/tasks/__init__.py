"""Tasks of ``edgedec bench accuracy``: one module each, with the function ``run``."""

CONTEXT_TOKENS = 512
"""Slots of the KV cache of a side that evicts, for ``needle``."""
