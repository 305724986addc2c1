"""Structured output: what a reply has to be, and which tokens may come next for that.

``spec`` has the plain value that callers hand in, ``constraint`` the interface that decoding asks.
"""

from edgedec.grammar.spec import GrammarChoice, GrammarSpec

__all__ = ["GrammarChoice", "GrammarSpec"]
