"""Real models on a GPU: the CPU's tokens and rows. A software adapter takes minutes."""

from __future__ import annotations

import pytest

import edgedec
from edgedec import RunConfig, SamplingParams
from edgedec.assemble import runner
from edgedec.backends.gpu.adapter import CHOICE
from edgedec.control import CostCurve
from edgedec.core.cache_config import Device
from edgedec.core.rows import Rows
from edgedec.costs.pass_costs import PassCosts
from tests.fixtures.real_models import REAL_MODELS, installed
from tests.fixtures.replies import feed_all
from tests.gpu import adapters
from tests.gpu.test_model import same

pytestmark = pytest.mark.slow

TEXT = "def fibonacci(n):\n    # The first numbers are 0, 1, 1, 2, 3, 5, 8. The first numbers are"
SAMPLING = {"greedy": SamplingParams.greedy(), "sampled": SamplingParams(temperature=0.8, seed=9)}
DRAFTERS = "lookup,recycling"
TREE = [-1, 0, 0, 1, 2]
LONG = 64
SHORT = 8
"""Tokens of a model whose passes take seconds on a software adapter."""


@pytest.fixture(autouse=True)
def chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the adapter that is there; all drafts are fed, so what passes cost need not be measured."""
    monkeypatch.setenv(CHOICE, adapters.adapter().name)
    costs = PassCosts(CostCurve({1: 1.0, 128: 1.0}))
    monkeypatch.setattr(runner, "known_costs", lambda *given, **more: costs)


def config(device: Device, draft: str = "off") -> RunConfig:
    return RunConfig(device=device, draft=draft, draft_tokens=7, context=256)


def plain(name: str, device: Device, sampling: str, count: int) -> list[int]:
    with edgedec.open(name, config(device)) as model:
        reply = model.complete(TEXT, sampling=SAMPLING[sampling], max_tokens=count)
        reply.read()
        return list(reply.tokens)


def drafted(name: str, device: Device, sampling: str, count: int) -> list[int]:
    """Feed all that is drafted, whether it pays or not: passes of several tokens, and trees."""
    with edgedec.open(name, config(device, DRAFTERS)) as model:
        (speculation,) = feed_all([model.single.engine])
        reply = model.complete(TEXT, sampling=SAMPLING[sampling], max_tokens=count)
        reply.read()
        tally = speculation.tally
        print(f"{name} on {device}, {sampling}: {tally.drafted} drafted, {tally.accepted} accepted")
        assert 0 < tally.accepted < tally.drafted
        return list(reply.tokens)


@pytest.mark.parametrize("sampling", SAMPLING)
@pytest.mark.parametrize(
    ("name", "count"), [(name, SHORT if name.startswith("qwen") else LONG) for name in REAL_MODELS]
)
def test_replies_are_those_of_the_cpu(name: str, count: int, sampling: str) -> None:
    installed(name)
    expected = plain(name, "cpu", sampling, count)
    assert len(expected) == count
    assert plain(name, "gpu", sampling, count) == expected
    assert drafted(name, "gpu", sampling, count) == expected


@pytest.mark.parametrize("name", REAL_MODELS)
def test_rows_are_those_of_the_cpu(name: str) -> None:
    """All logits of a prompt's pass, of single tokens and of a tree, bit for bit."""
    installed(name)
    with edgedec.open(name, config("cpu")) as host, edgedec.open(name, config("gpu")) as other:
        prompt = host.loaded.tokenizer.encode(TEXT)
        forwards = [model.single.forward for model in (host, other)]
        for tokens, parents in ((prompt, None), (prompt[:1], None), (prompt[2:7], TREE), (prompt[1:2], None)):
            first, second = (one.extend(tokens, parents=parents, rows=Rows(full=True)) for one in forwards)
            assert same(first, second), (len(tokens), parents)
            for one in forwards:
                one.keep_path([0, 2] if parents else range(len(tokens)))
