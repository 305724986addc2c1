"""Models with recurrent states under every drafter; as a draft model one reads what was said, and no more."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from edgedec.assemble.config import RunConfig
from edgedec.assemble.runner import Runner
from edgedec.decode.engine import Engine
from edgedec.draft.model import ModelDrafter
from edgedec.memory import KvType
from edgedec.sampling import DrawParams
from tests.fixtures.hybrid_bundles import HybridBundles, hybrid_bundles
from tests.fixtures.replies import always, reply
from tests.fixtures.tiny_hybrid import HYBRIDS
from tests.fixtures.tiny_models import prepared_run

__all__ = ["hybrid_bundles"]  # a fixture
CONTEXT = 300


DRAFTS = {
    "qwen35": ("lookup,recycling", "small", "mtp", "mtp,lookup,small"),
    "lfm2": ("lookup,recycling", "small", "lookup,small"),
}
FAST, ALL = 12, 500


class Engines:
    """An engine for each set of drafters, all over models of one architecture that say few tokens."""

    def __init__(self, architecture: str, bundles: HybridBundles) -> None:
        self._architecture, self._bundles = architecture, bundles
        self._made: dict[tuple[str, KvType], Engine] = {}

    def fresh(self, draft: str, kv: KvType = "fp16") -> Engine:
        large, small = (
            self._bundles(self._architecture, few=True, formats=formats) for formats in ("q8_0", "q5_0")
        )
        config = RunConfig(draft=draft, threads=1, context=CONTEXT, kv=kv)
        drafts = {"small": small} if "small" in draft else {}
        return Runner(prepared_run(large, config, None, **drafts)).engine

    def kept(self, draft: str, kv: KvType) -> Engine:
        if (draft, kv) not in self._made:
            self._made[draft, kv] = self.fresh(draft, kv)
        return self._made[draft, kv]


def replies(engines: Engines, drafts: Sequence[str], cases: int) -> int:
    """Compare replies to texts that begin like earlier ones with plain ones; returns the tokens drafted."""
    draw, text = random.Random(cases), list(range(5, 60))
    drafted = 0
    for case in range(cases):
        text = [
            *text[: draw.randrange(1, len(text) + 1)],
            *(draw.randrange(12) for _ in range(draw.randrange(40))),
        ]
        text = text[-200:]
        drawn = DrawParams(temperature=1.2, top_k=6, repetition_penalty=1.1, seed=case)
        kv: KvType = draw.choice(["fp16", "int8"])
        count, params = draw.randrange(1, 40), draw.choice([DrawParams(), drawn])
        plain = engines.fresh("off", kv) if case % 20 == 0 else engines.kept("off", kv)
        expected = reply(plain, text, params, count)
        engine = engines.kept(draw.choice(drafts), kv)
        assert engine.speculation
        with always(engine):
            assert reply(engine, text, params, count) == expected
        drafted += engine.speculation.tally.drafted
        text += expected
    return drafted


@pytest.mark.parametrize("architecture", HYBRIDS)
def test_replies_with_every_drafter(architecture: str, hybrid_bundles: HybridBundles) -> None:
    assert replies(Engines(architecture, hybrid_bundles), DRAFTS[architecture], FAST) > 20


@pytest.mark.slow
@pytest.mark.parametrize("architecture", HYBRIDS)
def test_many_replies_with_every_drafter(architecture: str, hybrid_bundles: HybridBundles) -> None:
    assert replies(Engines(architecture, hybrid_bundles), DRAFTS[architecture], ALL) > 20 * ALL


@pytest.mark.parametrize("architecture", HYBRIDS)
def test_a_draft_model_reads_little_again(architecture: str, hybrid_bundles: HybridBundles) -> None:
    bundle, small = (hybrid_bundles(architecture, few=True, formats=one) for one in ("q8_0", "q5_0"))
    config = RunConfig(draft="small", threads=1, context=400)
    engine = Runner(prepared_run(bundle, config, None, small=small)).engine
    plain = Runner(prepared_run(bundle, RunConfig(draft="off", threads=1, context=400))).engine
    assert engine.speculation
    (drafter,) = engine.speculation._places.values()
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
