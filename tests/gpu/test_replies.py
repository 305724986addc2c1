"""Replies of a model on a GPU: those of the CPU, greedy and sampled, with and without drafts."""

from __future__ import annotations

from pathlib import Path

import pytest

import edgedec
from edgedec import RunConfig, SamplingParams
from edgedec.backends.gpu.adapter import CHOICE
from edgedec.core.cache_config import Device, KvType
from tests.gpu import adapters

TEXT = "one two one two one two one"


def reply(bundle: Path, device: Device, draft: str, sampling: SamplingParams, kv: KvType) -> tuple[str, int]:
    config = RunConfig(device=device, draft=draft, context=128, threads=1, kv=kv)
    with edgedec.open(bundle, config) as model:
        answer = model.complete(TEXT, sampling=sampling, max_tokens=24)
        return answer.read(), answer.stats.completion_tokens


@pytest.mark.parametrize("kv", ["fp16", "int8"])
@pytest.mark.parametrize("sampling", [SamplingParams.greedy(), SamplingParams(temperature=0.8, seed=3)])
def test_replies_are_those_of_the_cpu(
    sampling: SamplingParams, kv: KvType, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CHOICE, adapters.adapter().name)
    plain = reply(bundle, "cpu", "off", sampling, kv)
    assert reply(bundle, "gpu", "off", sampling, kv) == plain
    assert reply(bundle, "gpu", "lookup,recycling", sampling, kv) == plain
