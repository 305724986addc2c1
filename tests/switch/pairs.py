"""Two tiny models that take turns, put together by hand."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgedec.control.switching import EntropySwitching, SwitchRule
from edgedec.core.cache_config import CacheConfig
from edgedec.core.forward import Forward
from edgedec.core.rows import Rows
from edgedec.decode.engine import Engine
from edgedec.decode.records import Step
from edgedec.decode.speculation import Speculation
from edgedec.draft import Lookup, Recycling
from edgedec.drafters.model import model_drafter
from edgedec.sampling import DrawParams
from edgedec.switch.engine import SwitchedEngine
from edgedec.switch.generators import HomeGenerator
from tests.fixtures.ready import Ready
from tests.fixtures.tiny_models import run_tiny, tiny_bundle

SMALL_ALONE = SwitchRule(float("inf"))
LARGE_ALONE = SwitchRule(-1.0)


class Pair:
    """A tiny Llama, and another one beside it."""

    def __init__(self, folder: Path, *, drafts: bool = False, context_of_small: int = 256) -> None:
        self.large = run_tiny(tiny_bundle(folder, "llama", seed=0))
        self.small = run_tiny(tiny_bundle(folder, "llama", seed=1), context=context_of_small)
        self.large_engine, self.small_engine = (engine_of(one, drafts) for one in (self.large, self.small))
        small, large = HomeGenerator("small", self.small_engine), HomeGenerator("large", self.large_engine)
        rule = EntropySwitching(SwitchRule(0.8))
        self.engine = SwitchedEngine(self.large_engine, small, large, lambda: rule, clock=time.perf_counter)

    def small_drafts_for_large(self) -> None:
        """Let the small model, with a cache of its own, draft for the large one beside the others."""
        drafter = model_drafter("small", self.large.loaded, self.small.loaded, self._second_cache())
        self.large_engine.speculation = Speculation([drafter, Lookup(), Recycling()], limit=4)

    def _second_cache(self) -> Forward:
        return self.small.loaded.backend.forward(CacheConfig(256))

    def reply(
        self,
        prompt: Sequence[int],
        decide: Callable[[], EntropySwitching],
        params: DrawParams | None = None,
        tokens: int = 60,
    ) -> list[Step]:
        """The steps of a reply, in which end tokens are tokens like others."""
        self.engine.decide_by(decide)
        return list(self.engine.generate(prompt, params or DrawParams(), max_tokens=tokens, stop_ids=()))


def engine_of(model: Ready, drafts: bool) -> Engine:
    speculation = Speculation([Lookup(), Recycling()]) if drafts else None
    return Engine(model.forward, speculation=speculation)


def next_logits(forward: Forward, ids: Sequence[int]) -> NDArray[np.float32]:
    """The logits behind ``ids``, of which the cache may hold a beginning."""
    forward.rewind(forward.reachable(min(forward.length, len(ids) - 1)))
    row = forward.extend(ids[forward.length :], rows=Rows(last=True, full=True)).logits
    assert row is not None
    return row


def fresh_logits(folder: Path, architecture: str, seed: int, ids: Sequence[int]) -> NDArray[np.float32]:
    """The same of a model that has read nothing yet, in passes of another width."""
    forward = run_tiny(tiny_bundle(folder, architecture, seed=seed)).forward
    for at in range(0, len(ids) - 1, 37):
        forward.extend(ids[at : min(at + 37, len(ids) - 1)])
    return next_logits(forward, ids)
