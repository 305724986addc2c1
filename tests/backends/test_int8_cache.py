"""A cache in int8: other results than fp16's, near them, and as exact; and what is given back of a cache."""

from __future__ import annotations

import mmap
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgedec.backends.onnx import kv_memory
from edgedec.backends.onnx.forward import OnnxForward
from edgedec.backends.onnx.kv_memory import KvMemory
from edgedec.backends.open import open_backend
from edgedec.bundle.manifest import Manifest
from edgedec.core.cache_config import CacheConfig
from edgedec.core.errors import UnsupportedError
from edgedec.core.rows import Rows
from edgedec.decode.engine import Engine, PassRecord
from edgedec.decode.speculation import Speculation
from edgedec.draft import Lookup, Recycling
from edgedec.kernels import library
from edgedec.memory import KvType
from edgedec.sampling import DrawParams
from tests.fixtures.opened import onnx_forward
from tests.fixtures.tiny_models import run_tiny

Bundles = Callable[[str], Path]
KV_TYPES: tuple[KvType, ...] = ("fp16", "int8")
PROMPT = [5, 17, 3, 3, 42, 8, 5, 17, 3, 3, 42]
SAMPLED = DrawParams(temperature=0.8, top_k=20, seed=3)


def opened(bundle: Path, kv: KvType = "int8", manifest: Manifest | None = None) -> OnnxForward:
    return onnx_forward(bundle, manifest or Manifest.load(bundle), threads=2, capacity=250, spin=False, kv=kv)


def reply(forward: OnnxForward, params: DrawParams, *drafters: Lookup | Recycling) -> tuple[list[int], int]:
    """Tokens, and the passes that they took."""
    passes: list[PassRecord] = []
    speculation = Speculation(list(drafters)) if drafters else None
    engine = Engine(forward, speculation=speculation, observe=passes.append)
    return [step.token for step in engine.generate(PROMPT, params, max_tokens=60, stop_ids=())], len(passes)


@pytest.mark.parametrize("params", [DrawParams(), SAMPLED])
@pytest.mark.parametrize("architecture", ["llama", "gemma3"])
def test_replies_with_drafts_are_those_without(
    architecture: str, params: DrawParams, tiny_bundle: Bundles
) -> None:
    bundle = tiny_bundle(architecture)
    plain, passes = reply(opened(bundle), params)
    drafted, fewer = reply(opened(bundle), params, Lookup(), Recycling(memory=1 << 16))
    assert drafted == plain
    assert len(plain) == 60
    if not params.temperature:
        assert fewer < passes


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "gemma3"])
def test_results_are_near_those_of_fp16_and_not_the_same(architecture: str, tiny_bundle: Bundles) -> None:
    bundle = tiny_bundle(architecture)
    rows = [opened(bundle, kv).extend(PROMPT, rows=Rows(full=True)).logits for kv in KV_TYPES]
    assert rows[0] is not None
    assert rows[1] is not None
    distance, size = np.abs(rows[0] - rows[1]).max(), np.abs(rows[0]).max()
    assert 1e-4 * size < distance < 0.1 * size


def test_every_kernel_row_gives_the_same_bits(tiny_bundle: Bundles, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = set()
    for isa in library.available():
        monkeypatch.setenv("EDGEDEC_ISA", isa)
        forward = opened(tiny_bundle("qwen2"))
        logits = forward.extend(PROMPT, rows=Rows(full=True)).logits
        tree = forward.extend([1, 2, 3], parents=[-1, 0, 0], rows=Rows(full=True)).logits
        assert logits is not None
        assert tree is not None
        seen.add(logits.tobytes() + tree.tobytes())
    assert len(seen) == 1


def test_it_takes_little_more_than_half(tiny_bundle: Bundles) -> None:
    bundle = tiny_bundle("llama")
    spec = Manifest.load(bundle).spec
    forward = opened(bundle)
    assert forward.nbytes()["kv_cache"] == 250 * spec.n_layers * 2 * spec.n_kv_heads * (spec.head_dim + 2)
    assert forward._kv.arrays["kv_cache"].nbytes == forward.nbytes()["kv_cache"]


def test_another_runtime_keeps_its_own_cache(decoder_bundle: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"cache in int8 .* another runtime runs"):
        open_backend(decoder_bundle, Manifest.load(decoder_bundle), threads=1).forward(CacheConfig(kv="int8"))
    assert run_tiny(decoder_bundle, context=None).runner.kv is None


def test_a_loaded_model_says_how_its_cache_is_kept(tiny_bundle: Bundles) -> None:
    small, large = (run_tiny(tiny_bundle("llama"), kv=kv) for kv in ("int8", "fp16"))
    assert (small.runner.kv, large.runner.kv) == ("int8", "fp16")
    assert small.forward.nbytes()["kv_cache"] < large.forward.nbytes()["kv_cache"]


@pytest.mark.parametrize("kv", KV_TYPES)
def test_results_are_the_same_after_memory_was_given_back(
    kv: KvType, tiny_bundle: Bundles, monkeypatch: pytest.MonkeyPatch
) -> None:
    for least in ("_WORTHWHILE_BYTES", "_WORTHWHILE_SLOTS"):
        monkeypatch.setattr(kv_memory, least, 1)
    forward = opened(tiny_bundle("llama"), kv)
    given: list[tuple[int, int, bool]] = []

    def release(length: int, reached: int) -> bool:
        given.append((length, reached, KvMemory.release(forward._kv, length, reached)))
        return given[-1][2]

    monkeypatch.setattr(forward._kv, "release", release)
    whole = forward.extend(list(range(200)), rows=Rows(full=True)).logits
    assert whole is not None
    for length in (150, 30, 0):
        forward.rewind(length)
        rest = forward.extend(list(range(length, 200)), rows=Rows(full=True)).logits
        assert rest is not None
        assert rest.tobytes() == whole[length:].tobytes()
    forward.rewind(40)
    forward.rewind(20)
    done = hasattr(mmap, "MADV_DONTNEED")
    assert given == [(length, 200, done) for length in (150, 30, 0, 40)] + [(20, 40 if done else 200, done)]


_GIVE_BACK = """
import sys
from dataclasses import replace
from pathlib import Path
import numpy as np
from edgedec.backends.fake import tiny_spec
from edgedec.backends.onnx.kv_memory import KvMemory
def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
kv, kept = sys.argv[1], int(sys.argv[2])
spec = replace(tiny_spec(8, 3001), n_layers=8, n_kv_heads=3, head_dim=80)
memory = KvMemory(spec, 3001, kv)  # no head begins where a page does
cache = memory.arrays["kv_cache"].view(np.uint16)
cache[:] = np.arange(3001, dtype=np.uint16)[:, None]
full = resident()
assert not memory.release(2990, 3001)
assert resident() > full - (1 << 20)
given = memory.release(kept, 3001)
print(given, full - resident(), cache.nbytes)
assert (cache[:, :, :, :kept] == np.arange(kept, dtype=np.uint16)[:, None]).all()
cache[:] = 7
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("kept", [0, 1, 700])
@pytest.mark.parametrize("kv", ["fp16", "int8"])
def test_a_long_way_back_gives_memory_to_the_system(kv: str, kept: int) -> None:
    """In a process of its own, whose resident memory nothing else changes."""
    command = [sys.executable, "-c", _GIVE_BACK, kv, str(kept)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    given, fell, size = done.stdout.split()
    pages_between_heads = 2 * 8 * 2 * 3 * 4096
    assert given == "True"
    assert int(fell) > int(size) * (3001 - kept) / 3001 - pages_between_heads
