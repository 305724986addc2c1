"""Forwards without a model, for tests of everything above the seam.

``FakeForward`` plays a script and fails when it is fed anything else. ``MarkovForward`` is a small model
whose logits are a hash of the whole prefix: only the right tokens in the right order give the right answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from edgedec.backends.cache_forward import CacheForward
from edgedec.backends.checks import check_kept
from edgedec.backends.head_rows import head_rows, trimmed_rows
from edgedec.backends.peeked import NOTHING, PeekingForward, check_peek
from edgedec.core.forward import Attending, Capabilities, Copying, Evicting, Forward
from edgedec.core.model_spec import ModelSpec
from edgedec.core.quick_dataclass import dataclass
from edgedec.core.rows import LAST_ROW, FloatArray, HeadRows, Parents, Rows
from edgedec.memory import CacheBook, PlannedPass, kv_bytes

_MASK = (1 << 64) - 1
_EXITS = (1, 2, 4)
_TAPS = (0, 1, 2)
"""Layers whose outputs are hidden states; each is one number wide here."""


class ScriptError(AssertionError):
    """The fake was fed something its script does not have."""


@dataclass(frozen=True, slots=True)
class Expect:
    """One pass of a script: it must start at ``start`` with ``tokens``; row i answers with ``answers[i]``."""

    start: int
    tokens: tuple[int, ...]
    answers: tuple[int, ...]
    """Best token of each row asked for, in order."""
    parents: tuple[int, ...] | None = None


def tiny_spec(vocab_size: int, context_length: int) -> ModelSpec:
    """Spec of a model with one layer, one head and one element, so that sizes stay readable."""
    return ModelSpec("fake", "fake", vocab_size, 1, 1, 1, 1, 1, context_length, head_k=min(64, vocab_size))


class _Fake(CacheForward, Forward):
    """The common part of both fakes: a tiny spec and checks."""

    def __init__(
        self, vocab_size: int, capacity: int, caps: Capabilities, context: int | None = None
    ) -> None:
        super().__init__(tiny_spec(vocab_size, context or capacity), caps, CacheBook(capacity))

    def nbytes(self) -> dict[str, int]:
        return {"weights": 0, "kv_cache": kv_bytes(self.spec, self.capacity)}


class FakeForward(_Fake):
    """Plays ``script`` pass by pass; a ScriptError names the difference. ``finished`` when all was played."""

    def __init__(
        self, script: Sequence[Expect], *, vocab_size: int = 32, capacity: int = 64, max_pass: int = 8
    ) -> None:
        super().__init__(vocab_size, capacity, Capabilities(max_pass=max_pass, trees=True, exact=True))
        self._script = list(script)
        self.played = 0

    @property
    def finished(self) -> bool:
        return self.played == len(self._script)

    def extend(self, tokens: Sequence[int], *, parents: Parents = None, rows: Rows = LAST_ROW) -> HeadRows:
        done = self._placed(tokens, parents, rows)
        if self.finished:
            raise ScriptError(f"pass {self.played} over {list(tokens)}, but the script is over")
        due = self._script[self.played]
        given = None if parents is None else tuple(parents)
        count = len(rows.resolve(len(tokens)))
        seen = (self.length, tuple(tokens), given, count)
        if seen != (due.start, due.tokens, due.parents, len(due.answers)):
            raise ScriptError(f"pass {self.played}: (start, tokens, parents, rows) is {seen}, expected {due}")
        self._book.append(done)
        self.played += 1
        logits = np.zeros((count, self.spec.vocab_size), dtype=np.float32)
        logits[np.arange(count), list(due.answers)] = 9.0
        return head_rows(logits, self.spec.head_k, full=rows.full, temperature=rows.temperature)

    def keep_path(self, nodes: Sequence[int]) -> None:
        self._book.keep(nodes)


class MarkovForward(_Fake, PeekingForward, Evicting, Attending, Copying):
    """A deterministic model: the logits after a token are a hash of every token on its path.

    Logits are multiples of ``1/8`` in [-sharpness, sharpness], so that equal values are common. Each slot
    holds the hash of its path, as a key-value cache holds state: a token kept in the wrong slot shows. Where
    tokens were evicted, it is a hash of those that stay, and of how many are missing. ``context``: positions
    it was made for, by default as many as there are slots. It pretends to have four layers: after exit E
    the logits are those of the whole model for a share E / 4 of all tokens, and others elsewhere.
    """

    def __init__(
        self,
        *,
        vocab_size: int = 24,
        capacity: int = 256,
        max_pass: int = 64,
        sharpness: float = 4.0,
        seed: int = 0,
        context: int | None = None,
    ) -> None:
        caps = Capabilities(
            max_pass=max_pass,
            trees=True,
            exact=True,
            taps=_TAPS,
            exits=_EXITS,
            trims=True,
        )
        super().__init__(vocab_size, capacity, caps, context)
        self._slots = [0] * capacity
        self._fed = [0] * capacity
        self._seed = _mix(seed + 1)
        self._sharpness = sharpness
        self.passes = 0
        self.peeks = 0
        self.reused = 0
        """Tokens whose lower layers a pass took from peeks."""

    def extend(self, tokens: Sequence[int], *, parents: Parents = None, rows: Rows = LAST_ROW) -> HeadRows:
        chosen = rows.resolve(len(tokens))
        done = self._placed(tokens, parents, rows)
        warm = self._peeked.shared(tokens, done.parents)
        self._compute(done, tokens, warm)
        self._peeked = NOTHING
        self._book.append(done)
        self.passes += 1
        self.reused += warm
        found = self._head([self._slots[done.start + node] for node in chosen], rows)
        if not rows.taps:
            return found
        return replace(found, hidden=_hidden(self._slots[done.start : done.start + len(tokens)], rows.taps))

    def peek(
        self,
        tokens: Sequence[int],
        *,
        exit: int,
        resume: int | None = None,
        parents: Parents = None,
        rows: Rows = LAST_ROW,
    ) -> HeadRows:
        """See ``Peeking.peek``."""
        check_peek(rows)
        self._check_rows(rows)
        before = self._peeked.at(exit, resume)
        peeked = before.joined(tokens, parents, self.caps)
        chosen = rows.resolve(len(tokens))
        done = self._placed(peeked.tokens, peeked.parents, Rows(()))
        self._compute(done, peeked.tokens, len(before))
        self._peeked = peeked
        self.peeks += 1
        states = (self._slots[done.start + len(before) + node] for node in chosen)
        run = exit
        if resume is not None:
            run += self.caps.exits[-1] - resume
        return self._head([self._after(state, run) for state in states], rows)

    def _compute(self, done: PlannedPass, tokens: Sequence[int], first: int) -> None:
        """Fill the slots of a pass, from token ``first`` on."""
        for node in range(first, len(tokens)):
            parent = done.parents[node]
            slot = done.start + (parent if parent >= 0 else -1)
            before = self._slots[slot] if slot >= 0 else self._seed
            self._slots[done.start + node] = _mix(before ^ _mix(tokens[node] + 1))
            self._fed[done.start + node] = tokens[node]

    def _after(self, state: int, exit: int) -> int:
        """The state that an exit sees: the whole model's, or another."""
        other = _mix(state ^ _mix(exit))
        return state if other % self.caps.exits[-1] < exit else other

    def _head(self, states: Sequence[int], rows: Rows) -> HeadRows:
        logits = np.empty((len(states), self.spec.vocab_size), dtype=np.float32)
        for row, state in enumerate(states):
            logits[row] = self._logits(state)
        k = self.spec.head_k
        if rows.keep is None:
            return head_rows(logits, k, full=rows.full, temperature=rows.temperature)
        return trimmed_rows(logits, k, rows.keep, full=rows.full, temperature=rows.temperature)

    def rewind(self, length: int) -> None:
        super().rewind(length)
        self._forget()

    def keep_path(self, nodes: Sequence[int]) -> None:
        sources, targets = self._book.keep(nodes)
        for row in (self._slots, self._fed):
            moved = [row[slot] for slot in sources]
            for slot, value in zip(targets, moved, strict=True):
                row[slot] = value
        self._forget()

    def copy_prefix(self, source: Forward, length: int) -> int:
        """See ``Copying.copy_prefix``."""
        if not isinstance(source, MarkovForward) or source is self or source._seed != self._seed:
            raise ValueError("tokens are copied from another cache of the same model only")
        self.rewind(0)
        if not length or not source._book.holds(length):
            return 0
        planned = self._book.plan(length, None)
        for mine, other in ((self._slots, source._slots), (self._fed, source._fed)):
            mine[:length] = other[:length]
        self._book.append(planned)
        return self.length

    def evict(self, first: int, count: int) -> None:
        """See ``Evicting.evict``."""
        self.select(first, first + count, np.empty((1, 1, 0), np.intp))

    def attention(self, tokens: Sequence[int]) -> FloatArray:
        """See ``Attending.attention``. A pretence: a weight is a hash of the text before the query and of the
        key's token, in [0, 1).
        """
        start = self.resident
        self.extend(tokens, rows=Rows(indices=()))
        keys = [_mix(token + 1) for token in self._fed[: self.resident]]
        weights = np.zeros((1, 1, len(keys)), np.float32)
        for query in range(start, len(keys)):
            seen = [_mix(self._slots[query] ^ key) >> 40 for key in keys[: query + 1]]
            weights[0, 0, : query + 1] = np.maximum(weights[0, 0, : query + 1], np.divide(seen, 1 << 24))
        return weights

    def select(self, first: int, end: int, kept: NDArray[np.intp]) -> None:
        """See ``Evicting.select``."""
        check_kept(self.spec, first, end, kept)
        stay = kept[0, 0].tolist()
        self._book.evict(first, end, len(stay))
        self._fed[first:end] = [self._fed[slot] for slot in stay]
        self._fed += [0] * (self.capacity - len(self._fed))
        before = (self._slots[first - 1] if first else self._seed) ^ (self.length - self.resident)
        for slot in range(first, self._book.slots):
            before = self._slots[slot] = _mix(before ^ _mix(self._fed[slot] + 1))
        self._forget()

    def _forget(self) -> None:
        # Freed slots get garbage, so that a read of them cannot pass unnoticed.
        self._peeked = NOTHING
        for slot in range(self._book.slots, self.capacity):
            self._slots[slot] = -1

    def _logits(self, state: int) -> NDArray[np.float32]:
        x = np.arange(self.spec.vocab_size, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        x += np.uint64(state)
        x ^= x >> np.uint64(31)
        x *= np.uint64(0xD6E8FEB86659FD93)
        x ^= x >> np.uint64(32)
        unit = (x >> np.uint64(11)).astype(np.float64) * 2.0**-53
        return np.asarray(np.rint((2.0 * unit - 1.0) * self._sharpness * 8.0) / 8.0, dtype=np.float32)


def without_exits(forward: MarkovForward) -> MarkovForward:
    """Return ``forward``, which has no exits and no hidden states from now on."""
    forward.caps = replace(forward.caps, exits=(), taps=(), trims=False)
    return forward


def _hidden(states: Sequence[int], taps: Sequence[int]) -> FloatArray:
    """Hidden states f32[T, taps] in [0, 1): a hash of each token's path."""
    parts = [[_mix(state ^ layer) >> 40 for layer in taps] for state in states]
    return np.array(parts, np.float32).reshape(-1, len(taps)) / np.float32(1 << 24)


def _mix(x: int) -> int:
    x = (x * 0xD6E8FEB86659FD93) & _MASK
    x ^= x >> 32
    x = (x * 0xD6E8FEB86659FD93) & _MASK
    return x ^ (x >> 32)
