"""The file that keeps what a model's passes cost, when that was measured, and under which load."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgedec.bundle.manifest import WEIGHTS
from edgedec.core.cache_config import KvType
from edgedec.core.errors import StorageError
from edgedec.core.quick_dataclass import dataclass
from edgedec.core.version import __version__
from edgedec.disk.digest import sha256_hex
from edgedec.disk.files import atomic_path
from edgedec.telemetry.cores import load_average

if TYPE_CHECKING:
    from edgedec.core.forward import Forward
    from edgedec.loaded_model import LoadedModel

_DISAGREES = 2.0
"""Factor between measured costs and those that ran from which the measurement is doubted."""
_DOUBTED_FOR_S = 3600.0
"""A measurement stands for so long, doubted or not: measuring again is bounded to once in this time."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A point in time and the machine's state then."""

    at: float
    """Seconds since 1970."""
    load: float | None
    """Load average of the last minute; None where the system has none."""
    plain_s: float
    """Seconds that a pass over one token took."""


@dataclass(frozen=True, slots=True)
class KeptCosts:
    """Seconds of passes by their number of tokens: ratios as measured, at the level of the moment ``kept``.

    Ratios hold at any load. Corrections of them count in the process that made them: else some interrupted
    passes would make drafts look too dear in all replies to come, in which such passes never ran again.
    """

    seconds: Mapping[int, float]
    measured: Moment
    kept: Moment
    doubted: bool = False
    """Whether passes ran otherwise than measured."""

    def __post_init__(self) -> None:
        """Raises ValueError for seconds that are no costs."""
        if 1 not in self.seconds or not all(0.0 < time < math.inf for time in self.seconds.values()):
            raise ValueError(f"no costs: {dict(self.seconds)}")

    def corrected(self, seconds: Mapping[int, float], kept: Moment) -> KeptCosts:
        """Return these costs with what replies showed: ``seconds`` now, at the moment ``kept``."""
        doubted = self.doubted or self._disagrees(seconds)
        level = seconds[1] / self.seconds[1]
        now = {tokens: level * time for tokens, time in self.seconds.items()}
        return replace(self, seconds=now, kept=kept, doubted=doubted)

    def stands(self, now: float) -> bool:
        """Return whether to go on with these costs at ``now``; if not, measure them again."""
        return not self.doubted or now - self.measured.at < _DOUBTED_FOR_S

    def _disagrees(self, seconds: Mapping[int, float]) -> bool:
        """Return whether the measurement is off by a factor of two.

        Either passes over one token take half the time of those measured, which then ran under load; or a
        cost in relation to one token is twice or half of the one kept.
        """
        bends = (
            abs(math.log(seconds[tokens] / seconds[1] * self.seconds[1] / self.seconds[tokens]))
            for tokens in self.seconds
            if tokens in seconds
        )
        under_load = self.measured.plain_s >= _DISAGREES * seconds[1]
        return under_load or max(bends, default=0.0) >= math.log(_DISAGREES)


@dataclass(frozen=True, slots=True)
class CostFile:
    """The file that keeps the pass costs of one model, on one machine, with one number of threads."""

    path: Path
    conditions: tuple[str, ...]
    setting: str = "on this machine"
    """The conditions that a user chooses, in words."""
    now: Callable[[], float] = field(default=time.time)
    load: Callable[[], float | None] = field(default=load_average)

    @classmethod
    def of(
        cls, model: LoadedModel, kv: KvType | None, folder: Path, forward: Forward | None = None
    ) -> CostFile:
        """Name the file in ``folder`` after all that the ratios of costs depend on."""
        from edgedec.telemetry.machine import describe

        weights = model.manifest.files[WEIGHTS].sha256
        cache = ("int8",) if kv == "int8" else ()
        conditions = (__version__, weights, model.isa, str(model.threads), describe().cpu, *cache)
        if model.backend.experts:  # one at a time as they come from the disk, and not all of a layer at once
            conditions += ("experts on a disk",)
        if contrast := forward is not None and forward.contrasting is not None:
            conditions += ("with a text and without it",)
        digest = sha256_hex("|".join(conditions).encode())
        threads = "1 thread" if model.threads == 1 else f"{model.threads} threads"
        setting = f"with {threads} and a cache in int8" if cache else f"with {threads}"
        setting += ", with a text and without it" if contrast else ""
        return cls(folder / f"{digest[:24]}.json", conditions, setting)

    def read(self) -> KeptCosts | None:
        """Return the costs measured before, or None if there are none or the file is damaged."""
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
            seconds = {int(tokens): float(time) for tokens, time in found["seconds"].items()}
            measured, kept = Moment(**found["measured"]), Moment(**found["kept"])
            return KeptCosts(seconds, measured, kept, bool(found["doubted"]))
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None

    def measured(self, seconds: Mapping[int, float]) -> KeptCosts:
        """Return costs that were measured at this moment."""
        moment = self.moment(seconds)
        return KeptCosts(dict(seconds), moment, moment)

    def moment(self, seconds: Mapping[int, float]) -> Moment:
        """Return this moment, in which passes take ``seconds``."""
        return Moment(self.now(), self.load(), seconds[1])

    def write(self, costs: KeptCosts) -> None:
        """Replace the file. Raises StorageError."""
        content = json.dumps({"conditions": self.conditions, **asdict(costs)})
        with atomic_path(self.path) as temporary:
            temporary.write_text(content, encoding="utf-8", newline="\n")

    def write_quietly(self, costs: KeptCosts) -> None:
        """Replace the file in the middle of a conversation; on failure the next start uses older costs."""
        with suppress(StorageError):
            self.write(costs)
