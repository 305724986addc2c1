"""Prompts that begin alike: what one conversation of a batch has computed, the others take.

A slot that is borrowed, or copied, has the bits that computing it gives, so replies stay the same. Prompts of
texts begin with the same system message, those of samples are the same to the end.
"""

from __future__ import annotations

from collections.abc import Sequence

from edgedec.core.errors import EdgeDecError
from edgedec.decode.cached_sequence import CachedSequence
from edgedec.decode.checks import common_prefix

_WORTHWHILE_TOKENS = 8
"""Tokens that are worth a copy: a pass over fewer takes as long as one over none."""
COPY_TRIES = 3
"""Copies of a prefix: one fails where its source begins another reply meanwhile."""


class SharedPrefixes:
    """The caches of a batch, from which one takes the beginning of its next prompt."""

    def __init__(self, engines: Sequence[CachedSequence]) -> None:
        self._engines = engines

    @property
    def copies(self) -> bool:
        """Whether the model can copy."""
        return len(self._engines) > 1 and self._engines[0].forward.copying is not None

    def awaited(self, one: Sequence[int], other: Sequence[int]) -> bool:
        """Whether two prompts begin with tokens that some cache lacks, and that are worth waiting for."""
        shared = common_prefix(one, other)
        if not self.copies or shared < _WORTHWHILE_TOKENS:
            return False
        return any(shared - engine.reusable(one) >= _WORTHWHILE_TOKENS for engine in self._engines)

    def copy_to(self, number: int, prompt: Sequence[int]) -> None:
        """Copy the longest beginning of ``prompt`` that a cache holds into that of ``number``.

        Where that is not possible after all, the reply computes its prompt.
        """
        if not self.copies:
            return
        engine = self._engines[number]
        try:
            for _ in range(COPY_TRIES):
                source, length = max(
                    ((one, _held(one, prompt)) for one in self._engines if one is not engine),
                    key=lambda found: found[1],
                )
                if length - engine.reusable(prompt) < _WORTHWHILE_TOKENS:
                    return
                if engine.adopt_prefix(source, length):
                    return
        except EdgeDecError:
            engine.reset()


def _held(source: CachedSequence, prompt: Sequence[int]) -> int:
    """Count the tokens of ``prompt``, but for its last, that the cache of ``source`` begins with."""
    return min(common_prefix(source.committed, prompt), source.forward.length, len(prompt) - 1)
