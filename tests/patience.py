"""How long a test waits for something that happens unless the program hangs."""

from __future__ import annotations

PATIENCE_S = 180.0
"""Only a hang takes so long, on a machine of any load."""
