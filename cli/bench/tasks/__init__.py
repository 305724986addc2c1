"""Tasks of ``edgedec bench accuracy`` and ``bench memory``: one module each, with the function ``run``."""

CONTEXT_TOKENS = 512
"""Slots of the KV cache of a side that evicts, for ``needle``."""
CHAT_TOKENS = 48
"""Longest reply of ``chat``."""
PEER_TOKENS = 64
"""Tokens decoded by each side of ``peers``."""
DRAFTS = ("auto", "lookup", "recycling", "off")
"""Drafts that ``sessions`` chooses from."""
