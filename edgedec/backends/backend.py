"""A loaded model without a cache: the class that all backends are of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Protocol

from edgedec.backends.checks import check_threads, checked_capacity, checked_kv
from edgedec.core.cache_config import CacheConfig, KvType
from edgedec.core.errors import Remedy, UnsupportedError
from edgedec.core.experts import Experts, StoreCounts
from edgedec.core.forward import Capabilities, Forward
from edgedec.core.ledger import Ledger
from edgedec.core.model_spec import ModelSpec
from edgedec.core.quick_dataclass import dataclass
from edgedec.core.rows import LAST_ROW, HeadRows, Parents, Rows
from edgedec.telemetry.cores import physical_cores

DEFAULT_CACHE = CacheConfig()


@dataclass(frozen=True, slots=True)
class PassRequest:
    """The part of one sequence in a pass over several; see ``Forward.extend``."""

    sequence: int
    tokens: Sequence[int]
    parents: Parents = None
    rows: Rows = LAST_ROW


Submit = Callable[[PassRequest], HeadRows]
"""Computes a request, alone or in a pass with others."""
Observe = Callable[[Sequence[PassRequest], float], None]
"""Called after each pass with the requests in it and its duration in seconds."""


def unobserved(requests: Sequence[PassRequest], seconds: float) -> None:
    """Do nothing; the default ``Observe``."""


class ExpertSlots(Protocol):
    """Room in memory for some of a model's experts.

    ``slots``: those that there are now. ``least``: with so many passes go on. ``most``: of all experts, or as
    many as the machine has room for.
    """

    experts: Experts
    slots: int
    least: int
    most: int

    def limit(self, slots: int) -> None:
        """Keep at most so many experts in memory, from now on."""

    def counts(self) -> StoreCounts:
        """Return what passes asked for so far."""


class SequenceBatch(Protocol):
    """Several sequences in one KV cache, whose passes become passes over all of them.

    Use each forward from a thread of its own, inside ``reply``. Close the batch, or use it as a context
    manager.
    """

    @property
    def forwards(self) -> tuple[Forward, ...]:
        """One for each sequence."""

    def reply(self, sequence: int, *, streams: bool = True) -> AbstractContextManager[None]:
        """Make every pass wait for a request of ``sequence`` while inside.

        ``streams``: whether its tokens are read as they come, so that no prompt may hold them up for long.
        Raises ValueError when the sequence is in a reply already.
        """

    def close(self) -> None:
        """Run no more passes; waiting callers get a BackendError."""


class Backend(ABC):
    """A loaded model: weights and facts, no KV cache. So a caller plans memory before the cache exists.

    It runs one sequence, on the CPU, with all weights in memory, unless a subclass says otherwise.
    """

    spec: ModelSpec
    caps: Capabilities
    """Abilities of any forward; ``max_pass`` is the most that a cache can allow."""
    threads: int
    """Compute threads."""
    weight_bytes: int
    """Bytes of the weights, as mapped or held."""
    changed_by: tuple[str, ...] = ()
    """Hashes of the adapters that change its matrices."""
    experts: ExpertSlots | None = None
    """Experts that are read from the disk as passes need them; None where all weights are in memory."""

    def __init__(self, spec: ModelSpec, caps: Capabilities, threads: int | None) -> None:
        """``threads``: None: one per physical core. Raises UsageError for fewer than one."""
        check_threads(threads)
        self.spec, self.caps = spec, caps
        self.threads = threads or physical_cores()

    @property
    def pass_spec(self) -> ModelSpec:
        """``spec`` with the sizes of what a pass holds for a moment: adapters have results of their own."""
        return self.spec

    @staticmethod
    def runtime_name() -> str:
        """The name of the runtime, known without a model."""
        raise NotImplementedError

    @property
    def runtime(self) -> str:
        """The kernel row that runs ("avx2", ...), or the name of another runtime."""
        return self.runtime_name()

    @abstractmethod
    def forward(self, cache: CacheConfig = DEFAULT_CACHE, ledger: Ledger | None = None) -> Forward:
        """Make an empty KV cache, once, and the forward over it; its memory is leased from ``ledger``.

        Raises UsageError for a capacity beyond the model's context, UnsupportedError for a format that is not
        in ``caps.kv_kinds``, MemoryBudgetError, and BackendError when the memory cannot be had.
        """

    def contrasting(
        self,
        weight: float,
        cache: CacheConfig = DEFAULT_CACHE,
        *,
        batch_tokens: int,
        ledger: Ledger | None = None,
    ) -> Forward:
        """Make a forward whose logits weigh a text (``core.forward.Contrasting``), over two sequences.

        ``weight``: that of the text, above 0. The others are as of ``sequences``, and so are the errors:
        UnsupportedError without ``caps.contrasts``.
        """
        raise UnsupportedError(
            f"{self.spec.name} has no passes with a text and without it",
            hint="export the model for EdgeDec's kernels",
            remedy=Remedy("export"),
        )

    def device_bytes(self, cache: CacheConfig = DEFAULT_CACHE) -> dict[str, int]:
        """Return bytes on a device of its own by purpose, with a KV cache for ``cache``; {} on the CPU."""
        return {}

    def sequences(
        self,
        count: int,
        cache: CacheConfig = DEFAULT_CACHE,
        *,
        batch_tokens: int,
        ledger: Ledger | None = None,
        observe: Observe = unobserved,
    ) -> SequenceBatch:
        """Make a KV cache for ``count`` sequences, each with the capacity and pass length of ``cache``.

        ``batch_tokens``: most tokens of one pass over all sequences. Raises UnsupportedError for more than
        ``caps.sequences``, and the errors of ``forward``.
        """
        raise UnsupportedError(
            f"{self.spec.name} runs one sequence at a time",
            hint="export the model for EdgeDec's kernels",
            remedy=Remedy("export"),
        )

    def _limits(self, cache: CacheConfig) -> tuple[int, KvType | None, Capabilities]:
        """Check ``cache``: its capacity in tokens, its format, and the capabilities of a forward over it.

        Raises UsageError and UnsupportedError as ``Backend.forward`` does.
        """
        capacity = checked_capacity(self.spec, cache.capacity)
        kv = checked_kv(self.spec, self.caps, cache)
        most = min(cache.max_pass or capacity, self.caps.max_pass, capacity)
        return capacity, kv, replace(self.caps, max_pass=most)
