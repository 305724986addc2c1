"""Replies of a model on a GPU: those of the CPU, greedy and sampled, with and without drafts."""

from __future__ import annotations

from pathlib import Path

import pytest

import edgedec
from edgedec import RunConfig, SamplingParams
from edgedec.assemble.runner import Runner
from edgedec.backends.gpu.adapter import CHOICE
from edgedec.core.cache_config import Device, KvType
from edgedec.sampling import DrawParams
from tests.fixtures import replies
from tests.fixtures.nightly import diagonal, every
from tests.fixtures.replies import GREEDY, SAMPLED, always
from tests.fixtures.tiny_models import tiny_bundle
from tests.gpu import adapters

TEXT = "one two one two one two one"


def reply(bundle: Path, device: Device, draft: str, sampling: SamplingParams, kv: KvType) -> tuple[str, int]:
    config = RunConfig(device=device, draft=draft, context=128, threads=1, kv=kv)
    with edgedec.open(bundle, config) as model:
        answer = model.complete(TEXT, sampling=sampling, max_tokens=24)
        return answer.read(), answer.stats.completion_tokens


@pytest.mark.parametrize(
    ("sampling", "kv"),
    diagonal([SamplingParams.greedy(), SamplingParams(temperature=0.8, seed=3)], ["fp16", "int8"]),
)
def test_replies_are_those_of_the_cpu(
    sampling: SamplingParams, kv: KvType, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CHOICE, adapters.adapter().name)
    plain = reply(bundle, "cpu", "off", sampling, kv)
    assert reply(bundle, "gpu", "off", sampling, kv) == plain
    assert reply(bundle, "gpu", "lookup,recycling", sampling, kv) == plain


@pytest.mark.parametrize("params", every(2, [SAMPLED, GREEDY]), ids=["drawn", "greedy"])
def test_keys_of_two_sizes_and_rows_of_layers(
    params: DrawParams, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """128 tokens with drafts that are all fed."""
    monkeypatch.setenv(CHOICE, adapters.adapter().name)
    bundle = tiny_bundle(tmp_path, "gemma4")
    with edgedec.open(bundle, RunConfig(context=192, threads=1, draft="off")) as model:
        assert isinstance(model.runner, Runner)
        plain = replies.reply(model.runner.engine, replies.PROMPT, params, 128)
    drafts = RunConfig(device="gpu", context=192, threads=1, draft="lookup,recycling")
    with edgedec.open(bundle, drafts) as model:
        assert isinstance(model.runner, Runner)
        engine = model.runner.engine
        with always(engine):
            assert replies.reply(engine, replies.PROMPT, params, 128) == plain
        assert engine.speculation
        assert engine.speculation.tally.drafted > 0
