"""Drafting with the target itself: its first layers, then its own norm and head, perhaps a trimmed one.

A draft step is a ``Peeking.peek`` after layer E. The keys and values it writes, and the hidden states after
E, are those of the pass that verifies, which goes on from there: nothing is computed twice (LayerSkip,
Elhoushi et al. 2024). With all layers and a trimmed head, only the whole head is left to the pass: that
drafts well without any training, and pays where the head is a large part of a pass.

A draft is a chain. It ends where an early head is unsure (AdaEDL, Agrawal et al. 2024), and where its path is
less probable than a further step is worth. A head's probabilities understate how often an exit is right, or
overstate it; so each exit measures that and states measured ones (the confidence of DEL, Zarch et al. 2025).

A draft may also leave out a span of layers and go on above it (SWIFT, Xia et al. 2025). The layers above see
other rows than a pass does, so their keys and values are the draft's alone.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from edgedec.core.calibration import Calibration
from edgedec.core.forward import Forward
from edgedec.core.quick_dataclass import dataclass
from edgedec.core.rows import LAST_ROW
from edgedec.core.tree import EMPTY, DraftTree, chain
from edgedec.core_lib.choices import Choices
from edgedec.draft.drafter import Drafter, DrafterCapabilities
from edgedec.draft.trimmed import TrimmedHead
from edgedec.sampling import DrawParams

_UNSURE_NATS = 4.0
"""Entropy above which nothing is drafted; AdaEDL's bound on acceptance, 1 - sqrt(0.2 H), is 0.1 there."""
_STEPS = 8
_PRIOR = 4.0
"""Tokens that the first guess about an exit weighs as much as."""
_MEMORY = 200.0
"""Tokens after which older ones fade: text changes."""
_LAST_IS_RIGHT = 0.9
"""First guess of how often the exit after all layers is right."""


@dataclass(frozen=True, slots=True)
class LayerSubset:
    """Layers that draft: the first ``exit``, and those behind the first ``resume`` if that is given."""

    exit: int
    resume: int | None = None

    @property
    def name(self) -> str:
        """The name of the drafter that has them."""
        if self.resume is None:
            return exit_name(self.exit)
        return f"skip-{self.exit}-{self.resume}"

    def count(self, last: int) -> int:
        """Return how many layers it runs in a model of ``last``."""
        if self.resume is None:
            return self.exit
        return self.exit + last - self.resume

    def share(self, forward: Forward, trimmed: TrimmedHead | None) -> float:
        """Return the bytes that a step reads, as a part of those of a pass over one token."""
        last = forward.caps.exits[-1]
        layers, head = read_bytes(forward, self.count(last))
        whole, _ = read_bytes(forward, last)
        keep = trimmed.keep if trimmed else None
        kept = 1.0 if keep is None else keep.size / forward.spec.vocab_size
        return (layers + kept * head) / (whole + head) if whole else self.count(last) / last


@dataclass(frozen=True, slots=True)
class _Stated:
    """A draft, and the head's own probabilities of its tokens; it followed ``position`` committed tokens."""

    position: int
    tokens: list[int]
    probs: list[float]


class ExitDrafter(Drafter):
    """Drafts after the first ``exit`` layers of ``forward``, the target's own.

    ``trimmed``: ids that the head computes while the text consists of them. ``ends``: tokens that nothing
    follows.
    """

    caps = DrafterCapabilities(peeks=True)

    def __init__(
        self,
        forward: Forward,
        exit: int,
        trimmed: TrimmedHead | None = None,
        ends: Collection[int] = (),
        resume: int | None = None,
    ) -> None:
        last = forward.caps.exits[-1]
        layers = LayerSubset(exit, resume)
        self.name = layers.name
        assert forward.peeking is not None, "a drafter of this kind is for forwards with exits"
        self._forward, self._peeking = forward, forward.peeking
        self._exit = exit
        self._resume = resume
        self._trimmed = trimmed
        self._ends = frozenset(ends)
        self._params = DrawParams()
        self._text: list[int] = []
        self._choices = Choices(self._params)
        whole = exit == last
        self._sure = _calibration(_LAST_IS_RIGHT if whole else None)
        self._unsure_nats = math.inf if whole else _UNSURE_NATS
        """After all layers the head's doubts are the target's own."""
        self._stated: _Stated | None = None
        self._peeked = 0
        self._layer_bytes, self._head_bytes = read_bytes(forward, layers.count(last))
        self._bytes_read = self._table_bytes = 0.0
        self._passes = 0

    @property
    def peeked(self) -> int:
        """See ``Drafter.peeked``."""
        return self._peeked

    def sampled(self, params: DrawParams) -> None:
        """Draw as the target does from now on."""
        self._params = params

    def begin(self, tokens: Sequence[int], kept: int) -> None:
        self._text = list(tokens)
        if self._trimmed:
            self._trimmed.begin()
            self._trimmed.follow(self._text)
        self._choices = Choices(self._params, tokens)
        self._stated = None

    def commit(self, tokens: Sequence[int]) -> None:
        self._score(tokens)
        self._choices.commit(tokens)
        self._text += tokens
        if self._trimmed:
            self._trimmed.follow(self._text)

    def propose(self, limit: int, floor: float = 0.0) -> DraftTree:
        """See ``Drafter.propose``. Nothing where the cache lacks more than the last committed token."""
        self._peeked, self._stated = 0, None
        if limit < 1 or self._forward.length != len(self._text) - 1:
            return EMPTY
        if self._peeking.peeked:  # of a draft that no pass followed
            self._forward.rewind(self._forward.length)
        self._stated = made = self._chain(limit, floor)
        return chain(made.tokens, [self._sure.of(prob) for prob in made.probs], self.name)

    def nbytes(self) -> int:
        return 8 * len(self._text) + (self._trimmed.nbytes() if self._trimmed else 0)

    @property
    def bytes_read(self) -> int:
        """About those of the layers and of the kept rows of the head, once per token drafted."""
        return int(self._bytes_read)

    @property
    def passes(self) -> int:
        """One for each token drafted, and those that ended a draft."""
        return self._passes

    @property
    def table_bytes(self) -> int:
        """See ``Drafter.table_bytes``."""
        return int(self._table_bytes)

    def _chain(self, limit: int, floor: float) -> _Stated:
        """Tokens to follow the last committed one."""
        tokens: list[int] = []
        raw: list[float] = []
        keep = self._trimmed.keep if self._trimmed else None
        reach, token = 1.0, self._text[-1]
        while len(tokens) < limit and token not in self._ends:
            head = self._peeking.peek([token], exit=self._exit, rows=LAST_ROW, keep=keep, resume=self._resume)
            self._peeked += 1
            self._passes += 1
            kept = 1.0 if keep is None else keep.size / self._forward.spec.vocab_size
            self._bytes_read += self._layer_bytes + kept * self._head_bytes
            self._table_bytes += self._forward.spec.table_bytes or (1.0 - kept) * self._head_bytes
            if head.entropy[0] > self._unsure_nats:
                break
            found = self._choices.find(head, 0, len(self._text) + len(tokens), tokens)
            if not found or found[0][1] <= 0.0:
                break
            token, prob = found[0]
            tokens.append(token)
            raw.append(prob)
            reach *= self._sure.of(prob)
            if reach < floor:
                break
        return _Stated(len(self._text), tokens, raw)

    def _score(self, committed: Sequence[int]) -> None:
        """Compare the last draft with the tokens that came; those behind the first wrong one do not count."""
        stated, self._stated = self._stated, None
        if stated is None or stated.position != len(self._text):
            return
        for token, prob, came in zip(stated.tokens, stated.probs, committed, strict=False):
            self._sure.count(prob, token == came)
            if token != came:
                return


def _calibration(first: float | None) -> Calibration:
    """How often an exit was right, by the probability that its head gave a token.

    ``first``: the guess before any token; None: the head's own probability.
    """
    steps = range(_STEPS + 1)
    guesses = [(step + 0.5) / (_STEPS + 1) if first is None else first for step in steps]
    return Calibration(guesses, prior=_PRIOR, memory=_MEMORY)


def read_bytes(forward: Forward, layers: int) -> tuple[float, float]:
    """Bytes that a token reads of ``layers`` layers with their part of the KV cache, and of the head.

    Weights are split by their numbers of elements, as if all took as many bytes.
    """
    spec, held = forward.spec, forward.nbytes()
    heads = spec.head_dim * (2 * spec.n_heads + 2 * spec.n_kv_heads)
    layer, head = (
        spec.hidden_size * (heads + 3 * spec.taken / spec.n_layers),
        spec.hidden_size * spec.vocab_size,
    )
    each = spec.read_bytes(held.get("weights", 0) - spec.table_bytes) / (spec.n_layers * layer + head)
    cache = held.get("kv_cache", 0) / 2 / spec.n_layers  # half full, on average
    return layers * (each * layer + cache), each * head


def exit_name(exit: int) -> str:
    """Return the name of the drafter after ``exit`` layers."""
    return f"exit-{exit}"
