"""What is particular to the ONNX backend: loading, errors, memory, threads."""

from __future__ import annotations

import mmap
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnxruntime.capi import onnxruntime_pybind11_state as states

from edgedec.backends.fake import tiny_spec
from edgedec.backends.onnx.forward import OnnxForward
from edgedec.backends.onnx.kv_memory import KvMemory
from edgedec.backends.onnx.session import one_line_errors
from edgedec.bundle.manifest import MODEL, WEIGHTS, Manifest
from edgedec.core.errors import BackendError, BadFileError, UsageError
from edgedec.core.rows import Rows
from edgedec.decode.engine import Engine
from edgedec.sampling import DrawParams
from tests.fixtures.opened import onnx_forward

Bundles = Callable[[str], Path]


def opened(bundle: Path, **options: int | bool | None) -> OnnxForward:
    return onnx_forward(bundle, Manifest.load(bundle), spin=False, **options)  # type: ignore[arg-type]


def test_the_number_of_threads_changes_no_bit(tiny_bundle: Bundles) -> None:
    tokens = list(range(40))
    outcomes = set()
    for threads in (1, 2, 3):
        rows = opened(tiny_bundle("qwen2"), threads=threads).extend(tokens, rows=Rows(full=True))
        assert rows.logits is not None
        outcomes.add(rows.logits.tobytes() + rows.logsumexp.tobytes() + rows.entropy.tobytes())
    assert len(outcomes) == 1


def test_sums_can_be_had_at_a_temperature(tiny_bundle: Bundles) -> None:
    tokens = list(range(12))
    plain = opened(tiny_bundle("qwen2")).extend(tokens, rows=Rows(full=True))
    forward = opened(tiny_bundle("qwen2"))
    warm = forward.extend(tokens, rows=Rows(full=True, temperature=0.5))
    assert (plain.temperature, warm.temperature) == (1.0, 0.5)
    assert plain.logits is not None
    assert warm.logits is not None
    assert warm.logits.tobytes() == plain.logits.tobytes()
    exact = warm.logits.astype(np.float64) / 0.5
    np.testing.assert_allclose(warm.logsumexp, np.logaddexp.reduce(exact, axis=1), rtol=1e-6, atol=1e-5)
    forward.rewind(0)
    again = forward.extend(tokens, rows=Rows(full=True))  # the buffers are the same
    assert again.logsumexp.tobytes() == plain.logsumexp.tobytes()


def test_generation_does_not_depend_on_the_pass_size(tiny_bundle: Bundles) -> None:
    params = DrawParams(temperature=0.9, seed=2)
    replies = []
    for most in (512, 7, 1):
        forward = opened(tiny_bundle("gemma3"))
        forward.caps = replace(forward.caps, max_pass=most)
        steps = Engine(forward).generate(list(range(30)), params, max_tokens=30, stop_ids=())
        replies.append([step.token for step in steps])
    assert replies[0] == replies[1] == replies[2]
    assert len(set(replies[0])) > 10


def test_capacity_defaults_to_the_model_and_is_checked(tiny_bundle: Bundles) -> None:
    bundle = tiny_bundle("llama")
    limit = Manifest.load(bundle).spec.context_length
    assert opened(bundle).capacity == limit
    for wrong in (0, -1, limit + 1):
        with pytest.raises(UsageError, match=f"{wrong} tokens"):
            opened(bundle, capacity=wrong)
    with pytest.raises(UsageError, match="0 threads"):
        opened(bundle, threads=0)


def test_nbytes(tiny_bundle: Bundles) -> None:
    bundle = tiny_bundle("llama")
    tensors = onnx.load(str(bundle / MODEL), load_external_data=False).graph.initializer
    size = (bundle / WEIGHTS).stat().st_size
    # Each tensor is mapped in whole pages of its own.
    assert size <= opened(bundle).nbytes()["weights"] < size + 2 * mmap.PAGESIZE * len(tensors)


def damaged(bundle: Path, target: Path, change: Callable[[Path], object]) -> Path:
    """A copy of a bundle, damaged, opened with the manifest of the original."""
    shutil.copytree(bundle, target)
    change(target)
    return target


@pytest.mark.parametrize(
    "change",
    [
        lambda b: (b / MODEL).write_bytes(b"not a graph"),
        lambda b: (b / MODEL).write_bytes(b""),
        lambda b: (b / MODEL).write_bytes((b / MODEL).read_bytes()[:700]),
        lambda b: (b / MODEL).unlink(),
    ],
)
def test_a_broken_graph_is_a_bad_file(
    tiny_bundle: Bundles, tmp_path: Path, change: Callable[[Path], object], capfd: pytest.CaptureFixture[str]
) -> None:
    original = tiny_bundle("llama")
    copy = damaged(original, tmp_path / "copy", change)
    with pytest.raises(BadFileError) as error:
        onnx_forward(copy, Manifest.load(original))
    assert "\n" not in str(error.value)
    assert "pull or export" in str(error.value)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "change", [lambda b: (b / WEIGHTS).unlink(), lambda b: (b / WEIGHTS).write_bytes(b"short")]
)
def test_broken_weights_are_refused_in_one_line(
    tiny_bundle: Bundles, tmp_path: Path, change: Callable[[Path], object], capfd: pytest.CaptureFixture[str]
) -> None:
    original = tiny_bundle("llama")
    copy = damaged(original, tmp_path / "copy", change)
    with pytest.raises((BadFileError, BackendError)) as error:
        onnx_forward(copy, Manifest.load(original))
    assert "\n" not in str(error.value)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "changes",
    [{"n_layers": 9}, {"n_kv_heads": 1, "n_heads": 9}, {"head_dim": 8}, {"head_k": 7}, {"vocab_size": 7000}],
)
def test_a_graph_of_another_model_is_a_bad_file(tiny_bundle: Bundles, changes: dict[str, int]) -> None:
    bundle = tiny_bundle("llama")
    manifest = Manifest.load(bundle)
    with pytest.raises(BadFileError, match="not the model that its manifest describes"):
        onnx_forward(bundle, replace(manifest, spec=replace(manifest.spec, **changes)))


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (states.RuntimeException, "[ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : no good\nmore\n"),
        (states.ModelLoaded, "[ONNXRuntimeError] : 8 : MODEL_LOADED : no good"),
        (RuntimeError, "Error in execution: no good"),
    ],
)
def test_runtime_errors_become_backend_errors(kind: type[Exception], said: str) -> None:
    with pytest.raises(BackendError, match=r"^ONNX Runtime refused the model: .*no good$"), one_line_errors():
        raise kind(said)


def test_a_pass_that_fails_appends_nothing(tiny_bundle: Bundles, monkeypatch: pytest.MonkeyPatch) -> None:
    forward = opened(tiny_bundle("llama"))
    expected = forward.extend([1, 2, 3])
    forward.rewind(2)

    class Refusing:
        def run(self, *_: object) -> None:
            raise states.Fail("[ONNXRuntimeError] : 1 : FAIL : no")

        step = run

    with monkeypatch.context() as patch:
        for name in ("_bound_for", "_bound_step"):
            patch.setattr(forward._passes, name, lambda shape: Refusing())
        for tokens in ([3], [3, 4]):
            with pytest.raises(BackendError):
                forward.extend(tokens)
    assert forward.length == 2
    assert forward.extend([3]).values.tobytes() == expected.values.tobytes()


def test_loading_and_running_prints_nothing(tiny_bundle: Bundles) -> None:
    """In a process of its own, to see what libraries print at import too."""
    code = (
        "import sys; from pathlib import Path\n"
        "from edgedec.backends.onnx.model import OnnxModel; from edgedec.bundle.manifest import Manifest\n"
        "b = Path(sys.argv[1]); f = OnnxModel(b, Manifest.load(b)).forward(); f.extend([1, 2, 3])\n"
        "print(f.length)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tiny_bundle("llama"))], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("3\n", "")


def test_an_unknown_kernel_row_is_a_usage_error(tiny_bundle: Bundles) -> None:
    code = (
        "import os, sys; os.environ['EDGEDEC_ISA'] = 'sse9'; from pathlib import Path\n"
        "from edgedec.backends.onnx.model import OnnxModel; from edgedec.bundle.manifest import Manifest\n"
        "from edgedec.core.errors import UsageError\n"
        "b = Path(sys.argv[1])\n"
        "try: OnnxModel(b, Manifest.load(b))\n"
        "except UsageError as error: print(error.message)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tiny_bundle("llama"))], capture_output=True, text=True, check=True
    )
    assert "sse9" in done.stdout


def test_a_step_costs_little_python(tiny_bundle: Bundles, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything around the runtime's own run; some 10 microseconds, allowed 100."""
    forward = opened(tiny_bundle("llama"), capacity=256)
    forward.extend([1])
    (bound,) = forward._passes._bound.values()

    monkeypatch.setattr(bound, "_run", lambda: None)
    times = []
    for _ in range(200):
        began = time.perf_counter()
        forward.extend([1])
        times.append(time.perf_counter() - began)
    assert statistics.median(times) < 100e-6


def test_the_cache_is_committed_as_it_fills() -> None:
    """8 GiB reserved, 64 tokens written. A fresh process, since only the peak is known everywhere."""
    code = (
        "from dataclasses import replace; from edgedec.backends.fake import tiny_spec\n"
        "from edgedec.backends.onnx.kv_memory import KvMemory\n"
        "from edgedec.system.memory import peak_rss_bytes\n"
        "spec = replace(tiny_spec(8, 65536), n_layers=32, n_kv_heads=8, head_dim=128)\n"
        "before = peak_rss_bytes(); memory = KvMemory(spec, 65536)\n"
        "cache = memory.arrays['kv_cache']; cache[:, :, :, :64] = 1.0\n"
        "assert float(cache[31, 1, 7, 65535, 127]) == 0.0\n"
        "print(cache.nbytes, peak_rss_bytes() - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    reserved, held = map(int, done.stdout.split())
    assert reserved == 8 << 30
    assert held < 32 << 20


def test_a_cache_beyond_the_address_space_is_refused() -> None:
    spec = replace(tiny_spec(8, 1 << 40), n_layers=64, n_kv_heads=64, head_dim=256)
    with pytest.raises(BackendError, match="no memory for a context"):
        KvMemory(spec, 1 << 40)


def test_moving_slots_reads_before_it_writes() -> None:
    memory = KvMemory(replace(tiny_spec(8, 16), n_layers=2), 16)
    cache = memory.arrays["kv_cache"]
    cache[:] = np.arange(16, dtype=np.float16)[:, None]
    memory.move([3, 4, 6], [2, 3, 4])
    for layer in (0, 1):
        for part in (0, 1):
            assert cache[layer, part, 0, :7, 0].tolist() == [0, 1, 3, 4, 6, 5, 6]
