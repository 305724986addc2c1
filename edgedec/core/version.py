"""The version of EdgeDec."""

__version__ = "0.1.0"
