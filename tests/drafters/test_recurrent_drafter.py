"""A draft model with recurrent states goes back to where its draft began, and reads what was said since."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from edgedec.assemble.config import RunConfig
from edgedec.assemble.runner import Runner
from edgedec.draft.model import ModelDrafter
from edgedec.sampling import DrawParams
from tests.drafters.test_heads import always, reply
from tests.fixtures.hybrid_bundles import HybridBundles, hybrid_bundles
from tests.fixtures.tiny_hybrid import HYBRIDS
from tests.fixtures.tiny_models import prepared_run

__all__ = ["hybrid_bundles"]  # a fixture


@pytest.mark.parametrize("architecture", HYBRIDS)
def test_a_draft_model_reads_little_again(architecture: str, hybrid_bundles: HybridBundles) -> None:
    bundle, small = (hybrid_bundles(architecture, few=True, formats=one) for one in ("q8_0", "q5_0"))
    config = RunConfig(draft="small", threads=1, context=400)
    engine = Runner(prepared_run(bundle, config, None, small=small)).engine
    plain = Runner(prepared_run(bundle, RunConfig(draft="off", threads=1, context=400))).engine
    assert engine.speculation
    (drafter,) = engine.speculation._drafters
    assert isinstance(drafter, ModelDrafter)
    fed: list[int] = []
    extend = drafter._forward.extend

    def counted(tokens: Sequence[int], **how: Any) -> Any:
        fed.append(len(tokens))
        return extend(tokens, **how)

    drafter._forward.extend = counted  # type: ignore[method-assign]
    prompt = [5 + at % 40 for at in range(90)]
    with always(engine):
        assert reply(engine, prompt, DrawParams(), 100) == reply(plain, prompt, DrawParams(), 100)
    rounds = engine.speculation.tally.by_drafter[drafter.name].queries
    assert rounds > 10
    print(sum(fed), rounds, max(fed[2:]), engine.speculation.tally.accepted)
    assert max(fed[2:]) <= 16
    assert sum(fed) - len(prompt) < 12 * rounds
