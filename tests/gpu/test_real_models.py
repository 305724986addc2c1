"""Real models on a GPU: the CPU's tokens, drafted and sampled. A software adapter takes minutes."""

from __future__ import annotations

import pytest

import edgedec
from edgedec import RunConfig, SamplingParams
from edgedec.backends.gpu.adapter import CHOICE
from edgedec.core.cache_config import Device
from edgedec.core.home import default_home
from tests.gpu import adapters

pytestmark = pytest.mark.slow

TEXT = "def fibonacci(n):\n    # The first numbers are 0, 1, 1, 2, 3, 5, 8. The first numbers are"
TOKENS = 16


def tokens(name: str, device: Device, draft: str, sampling: SamplingParams) -> list[int]:
    config = RunConfig(device=device, draft=draft, context=256)
    with edgedec.open(name, config) as model:
        answer = model.complete(TEXT, sampling=sampling, max_tokens=TOKENS)
        answer.read()
        return list(answer.tokens)


@pytest.mark.parametrize("sampling", [SamplingParams.greedy(), SamplingParams(temperature=0.8, seed=7)])
@pytest.mark.parametrize("name", ["smollm2-135m", "gemma3-270m"])
def test_replies_are_those_of_the_cpu(
    name: str, sampling: SamplingParams, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not (default_home() / "models" / name).is_dir():
        pytest.skip(f"{name} is not installed")
    monkeypatch.setenv(CHOICE, adapters.adapter().name)
    plain = tokens(name, "cpu", "off", sampling)
    assert len(plain) == TOKENS
    assert tokens(name, "gpu", "off", sampling) == plain
    assert tokens(name, "gpu", "lookup,recycling", sampling) == plain
