"""The model that a report is about, and how much effort to spend on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgedec.bench.harness.memory_levels import FULL, Level
from edgedec.bundle.manifest import WEIGHTS, Manifest
from edgedec.core.cache_config import Device
from edgedec.core.quick_dataclass import dataclass
from edgedec.core.version import __version__
from edgedec.telemetry.bandwidth import Reader, measure

if TYPE_CHECKING:
    from edgedec.api import Model
    from edgedec.assemble.config import RunConfig
    from edgedec.assemble.prepare import Prepared


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of all measurements: prompts and their tokens, rounds of passes, questions, memory levels."""

    prompts: int
    tokens: int
    rounds: int
    questions: int
    answer_tokens: int
    levels: tuple[Level, ...]


FULL_EFFORT = Sizes(
    8, 64, 9, 24, 64, (FULL, Level("cut", 0.3), Level("cut", 0.5), Level("cut", 0.75), Level("least"))
)
QUICK_EFFORT = Sizes(6, 24, 6, 6, 40, (FULL, Level("least")))


@dataclass(frozen=True, slots=True)
class Subject:
    """A bundle on this machine. ``read`` measures the memory bandwidth; ``journals`` keeps single replies."""

    bundle: Path
    manifest: Manifest
    home: Path
    threads: int
    effort: Sizes
    read: Reader
    journals: Path
    device: Device = "cpu"

    def conditions(self) -> Mapping[str, Any]:
        """Return all that the whole report depends on, as plain JSON."""
        from edgedec.backends.open import runtime_of
        from edgedec.telemetry.machine import describe

        return {
            "version": __version__,
            "model": self.manifest.name,
            "weights": self.manifest.files[WEIGHTS].sha256[:16],
            "cpu": describe().cpu,
            "isa": runtime_of(self.manifest, self.device),
            "threads": self.threads,
            "effort": "quick" if self.effort == QUICK_EFFORT else "full",
        }

    def reading(self) -> float:
        """Read the memory bandwidth once, in GB/s: a measure of other load."""
        return measure(self.read, [self.threads], repeats=1)[0].gb_per_s

    def usual(self) -> Prepared:
        """Return all that a chat without options is made of."""
        from edgedec.api import context_of
        from edgedec.assemble.config import RunConfig
        from edgedec.assemble.prepare import Bundles, prepare
        from edgedec.models import Store

        config, context = RunConfig(threads=self.threads, device=self.device), context_of(Store(self.home))
        return prepare(config, Bundles(self.bundle), context)

    @contextmanager
    def opened(self, config: RunConfig) -> Iterator[Model]:
        """Open the model in this process, with the drafters that belong to it where ``config`` has "auto"."""
        from edgedec.api import open
        from edgedec.assemble.prepare import Bundles
        from edgedec.models import Store

        with open(Bundles(self.bundle), config, store=Store(self.home)) as model:
            yield model
