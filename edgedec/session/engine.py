"""The functions of an engine that a chat and a reply call."""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from edgedec.core.forward import Source
    from edgedec.core.progress import Steps
    from edgedec.decode.cached_sequence import CachedSequence
    from edgedec.decode.records import ReplyDetails, Step
    from edgedec.eviction.policy import Policy
    from edgedec.metrics.marks import CounterSnapshot
    from edgedec.metrics.switched import SwitchRecord
    from edgedec.sampling import DrawParams


class ReplyEngine(Protocol):
    """One model (``decode.Engine``), or two that take turns (``switch.SwitchedEngine``)."""

    @property
    def home(self) -> CachedSequence:
        """The reply's own model, with its cache, its ledger and its drafters."""

    @property
    def policy(self) -> Policy | None: ...

    @property
    def committed(self) -> Sequence[int]: ...

    @property
    def capacity(self) -> int: ...

    @property
    def slots(self) -> int: ...

    @property
    def switched(self) -> SwitchRecord | None:
        """Figures of the latest reply where two models take turns."""

    def mark(self) -> CounterSnapshot: ...

    def reusable(self, prompt_ids: Sequence[int]) -> int: ...

    def reset(self) -> None: ...

    def resume(self, tokens: Sequence[int], source: Source) -> None: ...

    def generate(
        self,
        prompt_ids: Sequence[int],
        params: DrawParams,
        *,
        max_tokens: int,
        stop_ids: Collection[int],
        progress: Steps | None = None,
        details: ReplyDetails = ...,
    ) -> Generator[Step, None, None]: ...
