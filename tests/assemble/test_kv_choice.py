"""The cache that ``--kv auto`` takes, with measurements that are given; and the measurement itself."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from edgedec.assemble import kv_choice
from edgedec.assemble.config import RunConfig
from edgedec.assemble.kv_choice import LONG_CONTEXT, chosen_kv
from edgedec.assemble.prepare import Bundles, prepare
from edgedec.assemble.run_context import RunContext
from edgedec.assemble.runner import Runner
from edgedec.backends.onnx.attention_speed import attention_seconds
from edgedec.core.cache_config import Device, KvType
from edgedec.core.cache_kinds import Keys
from edgedec.core.errors import UsageError
from edgedec.loaded_model import load_model
from tests.fixtures.tiny_models import tiny_bundle


@pytest.mark.parametrize(
    ("device", "context", "part", "kv", "says"),
    [
        ("cpu", LONG_CONTEXT, 0.6, "int8", "0.60 of the time"),
        ("cpu", LONG_CONTEXT, 0.95, "fp16", "0.95 of the time"),
        ("cpu", LONG_CONTEXT - 1, 0.6, "fp16", "shorter than 8192"),
        ("gpu", LONG_CONTEXT, 0.6, "fp16", "on the CPU alone"),
    ],
)
def test_a_long_context_is_kept_in_int8_where_that_is_quicker(
    tmp_path: Path, device: Device, context: int, part: float, kv: KvType, says: str
) -> None:
    asked: list[KvType] = []

    def speed(keys: Keys, heads: int, kind: KvType, tokens: int, clock: object) -> float:
        asked.append(kind)
        assert min(keys.head_dim, heads, tokens - 1) > 0
        return part if kind == "int8" else 1.0

    model = load_model(tiny_bundle(tmp_path))
    found, line = chosen_kv(model, device, context, time.perf_counter, speed)
    assert (found, says in line) == (kv, True), line
    assert asked == (["fp16", "int8"] if "of the time" in line else [])


def test_a_run_says_what_was_chosen_and_has_that_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle, lines = tiny_bundle(tmp_path), list[str]()
    context = RunContext(notice=lines.append)
    for longest, kv in ((8, "int8"), (LONG_CONTEXT, "fp16")):
        monkeypatch.setattr(kv_choice, "LONG_CONTEXT", longest)
        monkeypatch.setattr(kv_choice, "_LEAST_GAIN", 1e9)
        runner = Runner(prepare(RunConfig(kv="auto", draft="off"), Bundles(bundle), context))
        assert runner.kv == kv
        assert lines.pop().startswith(f"kv auto: {kv}")
        runner.close()
    with pytest.raises(UsageError, match="no KV cache in 'q4'"):
        RunConfig(kv="q4")  # type: ignore[arg-type]


def test_more_keys_heads_or_tokens_take_longer() -> None:
    few, many = Keys("kv_cache", 1, 1, 64), Keys("kv_cache", 1, 4, 128)
    for kv in ("fp16", "int8"):
        short = attention_seconds(few, 2, kv, 1, time.perf_counter)
        long = attention_seconds(many, 24, kv, 8, time.perf_counter)
        assert 0 < 4 * short < long
