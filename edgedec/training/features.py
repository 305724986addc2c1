"""The target's hidden states and best tokens over its own replies, computed in our kernels.

Features of one rollout come from one forward computation over prompt and reply, in passes like those of a
prompt; they have the bits that decoding had. ``FeatureCache`` keeps them on disk.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgedec.bundle.exits import taps_of
from edgedec.core.errors import UnsupportedError
from edgedec.core.forward import Forward
from edgedec.core.progress import Progress, silent
from edgedec.core.quick_dataclass import dataclass
from edgedec.core.rows import Rows
from edgedec.disk.files import atomic_path
from edgedec.training.rollouts import Rollout

BEST = 8
"""Tokens of the target that are kept for each position, with their log-probabilities."""
SHARD_ROLLOUTS = 8
LONGEST_TOKENS = 1024
"""Tokens of prompt and reply that are used; the rest of longer ones is not."""
DEFAULT_CACHE_BYTES = 4_000_000_000
CONTEXT_TOKENS = 128
"""Tokens before the last one of a prompt that training sees; each costs as much as one of a reply."""
_PIECE_TOKENS = 128
_OPEN_SHARDS = 64
_LARGEST_F16 = 65504.0


@dataclass(frozen=True, slots=True)
class Features:
    """Features of T tokens; R = T - first of them are taught, the last token of the prompt first.

    ``ids`` and ``logp`` at row j answer token ``first + j``: they say what follows it.
    """

    tokens: NDArray[np.int32]
    """[T]"""
    hidden: NDArray[np.float16]
    """[T, W], cut to the range of float16."""
    ids: NDArray[np.int32]
    """[R, 8], best first."""
    logp: NDArray[np.float16]
    """[R, 8] log-probabilities, of the whole vocabulary."""

    @property
    def first(self) -> int:
        return len(self.tokens) - len(self.ids)

    def end_of_prompt(self) -> Features:
        """Return the same without the tokens further than ``CONTEXT_TOKENS`` before the taught ones."""
        cut = max(self.first - CONTEXT_TOKENS, 0)
        return Features(self.tokens[cut:], self.hidden[cut:], self.ids, self.logp)


def bytes_a_token(width: int) -> int:
    """Return the bytes on disk of one token with hidden states of ``width`` elements."""
    return 4 + 2 * width + 6 * BEST


def used_tokens(text: Rollout) -> list[int]:
    """Return the tokens of a rollout that the target reads."""
    return [*text.prompt, *text.reply][:LONGEST_TOKENS]


def trained_length(text: Rollout) -> int:
    """Return how many of them training uses; see ``Features.end_of_prompt``."""
    used = len(used_tokens(text))
    return used - max(min(len(text.prompt), used) - 1 - CONTEXT_TOKENS, 0)


class Teacher:
    """Computes features with ``forward``, whose cache it empties.

    Raises UnsupportedError for a target that hands out no hidden states.
    """

    def __init__(self, forward: Forward) -> None:
        taps = taps_of(forward.spec.n_layers)
        if not set(taps) <= set(forward.caps.taps):
            raise UnsupportedError(
                f"{forward.spec.name} hands out no hidden states, which a head is trained on",
                hint="pull or export the model again",
            )
        self._forward, self._taps = forward, taps

    @property
    def width(self) -> int:
        """Elements of the hidden states of one token."""
        return len(self._taps) * self._forward.spec.hidden_size

    def features(self, text: Rollout) -> Features:
        """Feed a rollout and return its features."""
        tokens = used_tokens(text)[: self._forward.capacity]
        first = min(max(len(text.prompt) - 1, 0), len(tokens) - 1)
        self._forward.rewind(0)
        step = min(self._forward.caps.max_pass, _PIECE_TOKENS)
        heads = []
        for start in range(0, len(tokens), step):
            piece = tokens[start : start + step]
            taught = tuple(range(max(first - start, 0), len(piece)))
            heads.append(self._forward.extend(piece, rows=Rows(indices=taught, taps=self._taps)))
        hidden = np.concatenate([_given(head.hidden) for head in heads])
        logp = np.concatenate([head.values[:, :BEST] - head.logsumexp[:, None] for head in heads])
        return Features(
            np.array(tokens, dtype=np.int32),
            np.clip(hidden, -_LARGEST_F16, _LARGEST_F16).astype(np.float16),
            np.concatenate([head.ids[:, :BEST] for head in heads]),
            np.maximum(logp, -_LARGEST_F16).astype(np.float16),
        )


def _given(hidden: NDArray[np.float32] | None) -> NDArray[np.float32]:
    if hidden is None:
        raise UnsupportedError("the pass returned no hidden states")
    return hidden


class FeatureCache:
    """Features of ``texts`` by index, kept in shards of 8 rollouts below ``folder``.

    At most ``most_bytes`` are written; features beyond that are computed at every use. ``folder`` None keeps
    nothing. A shard is written whole or not at all, so a kill costs one shard, and one whose tokens are not
    those of ``texts`` is computed again.
    """

    def __init__(
        self,
        texts: Sequence[Rollout],
        compute: Callable[[Rollout], Features],
        folder: Path | None,
        most_bytes: int = DEFAULT_CACHE_BYTES,
    ) -> None:
        self._texts, self._compute = texts, compute
        self._folder, self._most = folder, most_bytes
        self._open: OrderedDict[int, _Shard] = OrderedDict()

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, index: int) -> Features:
        shard = self._shard(index // SHARD_ROLLOUTS)
        wanted = np.array(used_tokens(self._texts[index]), dtype=np.int32)
        if shard is not None and index % SHARD_ROLLOUTS < shard.count:
            found = shard.features(index % SHARD_ROLLOUTS)
            if np.array_equal(found.tokens, wanted[: len(found.tokens)]) and len(found.tokens):
                return found
        return self._compute(self._texts[index])

    def fill(self, progress: Progress = silent) -> int:
        """Compute and write the features that are missing, as far as the limit allows; return bytes kept."""
        if self._folder is None:
            return 0
        kept, done, total = 0, 0, len(self._texts)
        for number in range(-(-total // SHARD_ROLLOUTS)):
            texts = self._texts[number * SHARD_ROLLOUTS : (number + 1) * SHARD_ROLLOUTS]
            if not self._is_current(number, texts):
                found = []
                for text in texts:
                    found.append(self._compute(text))
                    done += 1
                    progress("features", done, total)
                size = sum(_nbytes(one) for one in found)
                if kept + size > self._most:
                    return kept
                self._open.pop(number, None)
                _Shard.write(self._path(number), found)
            shard = self._shard(number)
            kept += shard.nbytes if shard else 0
            done = number * SHARD_ROLLOUTS + len(texts)
            progress("features", done, total)
            if kept >= self._most:
                return kept
        return kept

    def _is_current(self, number: int, texts: Sequence[Rollout]) -> bool:
        shard = self._shard(number)
        if shard is None or shard.count < len(texts):
            return False
        wanted = [np.array(used_tokens(text), dtype=np.int32) for text in texts]
        found = [shard.features(place).tokens for place in range(len(texts))]
        return all(len(a) and np.array_equal(a, b[: len(a)]) for a, b in zip(found, wanted, strict=True))

    def _path(self, number: int) -> Path:
        assert self._folder is not None
        return self._folder / f"{number:05d}"

    def _shard(self, number: int) -> _Shard | None:
        if self._folder is None:
            return None
        if number not in self._open:
            if (shard := _Shard.read(self._path(number))) is None:
                return None
            self._open[number] = shard
            if len(self._open) > _OPEN_SHARDS:
                self._open.popitem(last=False)
        self._open.move_to_end(number)
        return self._open[number]


def _nbytes(features: Features) -> int:
    return sum(getattr(features, field.name).nbytes for field in fields(Features))


class _Shard:
    """Arrays of several rollouts end to end, mapped from files."""

    def __init__(self, arrays: dict[str, NDArray[Any]], tokens: list[int], taught: list[int]) -> None:
        self._arrays = arrays
        self._tokens = np.cumsum([0, *tokens]).tolist()
        self._taught = np.cumsum([0, *taught]).tolist()

    @property
    def count(self) -> int:
        return len(self._tokens) - 1

    @property
    def nbytes(self) -> int:
        return sum(int(array.nbytes) for array in self._arrays.values())

    def features(self, place: int) -> Features:
        token = slice(self._tokens[place], self._tokens[place + 1])
        row = slice(self._taught[place], self._taught[place + 1])
        arrays = self._arrays
        return Features(
            arrays["tokens"][token], arrays["hidden"][token], arrays["ids"][row], arrays["logp"][row]
        )

    @classmethod
    def write(cls, path: Path, found: Sequence[Features]) -> None:
        facts = {"tokens": [len(one.tokens) for one in found], "taught": [len(one.ids) for one in found]}
        with atomic_path(path, directory=True) as folder:
            for field in fields(Features):
                values = np.concatenate([getattr(one, field.name) for one in found])
                np.save(folder / f"{field.name}.npy", values, allow_pickle=False)
            (folder / "shard.json").write_text(json.dumps(facts), encoding="utf-8", newline="\n")

    @classmethod
    def read(cls, path: Path) -> _Shard | None:
        """Map a shard; None when there is none that can be read."""
        try:
            facts = json.loads((path / "shard.json").read_text(encoding="utf-8"))
            names = [field.name for field in fields(Features)]
            arrays = {
                name: np.load(path / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in names
            }
            shard = cls(arrays, facts["tokens"], facts["taught"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        whole = len(arrays["tokens"]) == len(arrays["hidden"]) == shard._tokens[-1]
        taught = len(arrays["ids"]) == len(arrays["logp"]) == shard._taught[-1]
        return shard if whole and taught else None
