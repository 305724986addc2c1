"""The committed tokens, and the KV cache that follows them.

The token sequence is the one truth. The cache may lag behind; the next pass feeds what it lacks. Whatever
happens in between (the caller closes a reply, a pass fails, Ctrl-C), the cache holds a prefix of the
sequence. Only while the tokens of one pass are handed out can it be ahead.

With an eviction ``Policy`` tokens leave a full cache, which then holds such a prefix without the evicted
ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from edgedec.core.errors import UnsupportedError
from edgedec.core.forward import Forward, Portable, Source
from edgedec.core.ledger import Ledger
from edgedec.core.model_spec import ModelSpec
from edgedec.decode.checks import common_prefix
from edgedec.decode.speculation import Speculation
from edgedec.eviction.policy import Policy


class CachedSequence:
    """A token sequence in the cache of ``forward``. ``speculation`` is told of every new sequence."""

    def __init__(self, forward: Forward, policy: Policy | None, speculation: Speculation | None) -> None:
        self.policy = policy
        self._forward = forward
        self.speculation = speculation
        self.switched = None
        """One model writes all replies; see ``session.engine.ReplyEngine``."""
        self._committed: list[int] = []
        self._replies = 0
        """Replies so far. Only the newest may run; a change from outside ends it, too."""
        forward.rewind(0)

    @property
    def home(self) -> CachedSequence:
        """This engine: see ``session.engine.ReplyEngine``."""
        return self

    @property
    def forward(self) -> Forward:
        """The model. Whoever feeds it must ``reset`` or ``adopt`` afterwards."""
        return self._forward

    @property
    def spec(self) -> ModelSpec:
        return self._forward.spec

    @property
    def ledger(self) -> Ledger:
        """The ledger that the model and its callers lease memory from."""
        return self._forward.ledger

    @property
    def committed(self) -> Sequence[int]:
        """The token sequence: prompt and reply. Not to be changed by callers."""
        return self._committed

    @property
    def capacity(self) -> int:
        """Most tokens ``committed`` can have."""
        return self.policy.limit if self.policy else self._forward.capacity

    @property
    def slots(self) -> int:
        """Most tokens the cache can hold."""
        return self._forward.capacity

    @property
    def portable(self) -> Portable | None:
        """The cache, if it can be written to a file."""
        return self._forward.portable

    def reusable(self, prompt_ids: Sequence[int]) -> int:
        """Count the tokens of a prompt that the cache holds. The last one is always fed, for its logits."""
        common = min(common_prefix(self._committed, prompt_ids), self._forward.length, len(prompt_ids) - 1)
        resident = self.policy.resident(common) if self.policy else common
        return self._forward.reachable(max(resident, 0))

    def _begin_anew(self, kept: list[int]) -> None:
        """Commit no more than ``kept``, before the cache changes.

        The tokens come first: ``adopt_prefix`` of another thread reads the number of replies, then the
        tokens, and compares the number again. In the other order it could take the old tokens for the new
        number, and copy slots that were filled with others since.
        """
        self._committed = kept
        self._replies += 1

    def reset(self) -> None:
        """Forget the sequence and empty the cache, also after a pass that failed."""
        self._begin_anew([])
        self._forward.rewind(0)

    def adopt(self, tokens: Sequence[int]) -> None:
        """Take ``tokens`` for committed: somebody else fed them to the cache.

        Raises ValueError when the cache does not hold as many tokens.
        """
        if len(tokens) != self._forward.length:
            raise ValueError(f"{len(tokens)} tokens for a cache that holds {self._forward.length}")
        self._replies += 1
        self._committed = list(tokens)
        if self.speculation:
            self.speculation.begin(self._committed, 0)

    def adopt_prefix(self, source: CachedSequence, length: int) -> int:
        """Begin with the first ``length`` committed tokens of ``source``, and return how many these are now.

        Their slots are copied, while ``source`` may be in a reply: 0 tokens are taken where its cache lacks
        some of them, or begins another text meanwhile. Raises the errors of ``Copying.copy_prefix``,
        UnsupportedError where the model does not copy.
        """
        if (copying := self._forward.copying) is None:
            raise UnsupportedError(f"{self.spec.name}: no tokens can be copied into its KV cache")
        self._begin_anew([])
        reply, tokens = source._replies, list(source._committed[:length])
        held = copying.copy_prefix(source._forward, min(len(tokens), source._forward.length))
        if held and source._replies != reply:
            self._forward.rewind(held := 0)
        self.adopt(tokens[:held])
        return held

    @property
    def replies(self) -> int:
        """A number that grows before tokens of the cache are replaced; see ``refilled``."""
        return self._replies

    @contextmanager
    def refilled(self, tokens: Sequence[int], kept: int) -> Iterator[None]:
        """Keep the first ``kept`` tokens, which are ``tokens`` too; commit those that the cache has behind.

        The caller fills the cache with ``tokens`` inside. An error empties it.
        """
        self._begin_anew(list(tokens[:kept]))
        try:
            self._forward.rewind(kept)
            yield
        except BaseException:
            self.reset()
            raise
        self.adopt(tokens[: self._forward.length])

    def resume(self, tokens: Sequence[int], source: Source) -> None:
        """Read the cache of ``tokens`` from ``source`` and go on as if they had just been fed.

        Raises the errors of ``Portable.read_cache``, with nothing committed then; ValueError when the
        cache is not ``portable``.
        """
        if (cache := self.portable) is None:
            raise ValueError("this model's cache cannot be read from a file")
        self._begin_anew([])
        cache.read_cache(source, len(tokens))
        self.adopt(tokens)
