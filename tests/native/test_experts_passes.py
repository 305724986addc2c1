"""Passes of the native engine over experts from the disk: Python's bits with any number of slots.

No memory plan is made, so that they run with sanitizers too, whose processes are larger than any budget here.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from edgedec.backends.onnx.model import OnnxModel
from edgedec.bundle.manifest import Manifest
from edgedec.core.cache_config import CacheConfig
from edgedec.core.errors import BackendError
from edgedec.decode.engine import Engine
from edgedec.decode.speculation import Speculation
from edgedec.draft import Lookup, Recycling
from tests.fixtures.streamed import damaged, first_expert
from tests.native.experts_alone import DRAWN, GREEDY, TOKENS, bundle, experts_of, one
from tests.native.native_forward import NativeModel
from tests.native.test_model import History

__all__ = ["bundle", "one"]  # fixtures


@pytest.mark.parametrize("kv", ["fp16", "int8"])
def test_drafts_change_nothing_with_any_slots(bundle: Path, kv: Any) -> None:
    manifest, cache, draw = Manifest.load(bundle), CacheConfig(400, kv, 64), random.Random(4)
    streamed = NativeModel(bundle, manifest, threads=1, memory=1)
    speculation = Speculation([Lookup(), Recycling()])  # without costs it always drafts
    drafting = Engine(streamed.forward(cache), speculation=speculation)
    plain = Engine(OnnxModel(bundle, manifest, threads=1, spin=False).forward(cache))
    for params in (GREEDY, DRAWN):
        for prompt in ([1, 5, 6, 7, 5, 6, 7, 5, 6], [1, 5, 6, 7] * 15):
            streamed.limit(draw.choice([1, 13, 20, 40]))
            found = [
                [step.token for step in engine.generate(prompt, params, max_tokens=TOKENS, stop_ids=())]
                for engine in (drafting, plain)
            ]
            assert found[0] == found[1]
            assert len(found[0]) == TOKENS
    assert speculation.tally.accepted > 20


@pytest.mark.parametrize("kv", ["fp16", "int8"])
def test_histories_have_the_bits_of_python_with_any_slots(bundle: Path, kv: Any) -> None:
    manifest, cache, draw = Manifest.load(bundle), CacheConfig(500, kv, 40), random.Random(3)
    streamed = NativeModel(bundle, manifest, memory=1)
    sizes = experts_of(bundle)
    assert streamed.limit(1) == sizes.least
    assert streamed.limit(1 << 40) == sizes.total
    whole = OnnxModel(bundle, manifest, threads=2, spin=False).forward(cache)
    history = History(streamed.forward(cache), whole, seed=len(kv))
    for _ in range(30):
        streamed.limit(draw.choice([1, 13, 20, 40, 1000]))
        history.step()


def test_an_expert_that_is_damaged_ends_a_pass_in_one_line(one: Path) -> None:
    """The next pass is whole again, once the file is."""
    manifest, cache = Manifest.load(one), CacheConfig(100)
    tokens = [token % 200 for token in range(0, 4000, 97)]
    forward = NativeModel(one, manifest, memory=1).forward(cache)
    says = r"^an expert is damaged: verify"
    with damaged(one, first_expert(one, 1) + 5), pytest.raises(BackendError, match=says):
        forward.extend(tokens)
    rows = OnnxModel(one, manifest, threads=1, spin=False).forward(cache).extend(tokens)
    assert forward.extend(tokens).values.tobytes() == rows.values.tobytes()
