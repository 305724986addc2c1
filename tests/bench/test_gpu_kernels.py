"""Times of kernels within passes on a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgedec.backends.gpu.adapter import CHOICE
from edgedec.bench.studies.gpu_kernels import GpuStudy, measure_kernels
from edgedec.core.progress import silent
from tests.fixtures.tiny_models import tiny_bundle
from tests.gpu import adapters


def test_every_kernel_of_a_pass_has_a_time_and_the_weights_it_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not adapters.device().timed:
        pytest.skip("the adapter has no timestamps")
    monkeypatch.setenv(CHOICE, adapters.adapter().name)
    bundle = tiny_bundle(tmp_path)
    found = measure_kernels(bundle, GpuStudy([4], resident=3, repeat=1, context=64), silent)
    assert {one.tokens for one in found} == {1, 4}
    linear = [one for one in found if one.kernel == "quant_linear/quant_linear"]
    size = (bundle / "weights.bin").stat().st_size
    assert [0 < one.streamed <= size for one in linear] == [True, True], [one.streamed for one in linear]
    assert all(one.ms.median >= 0 and one.steps > 0 for one in found)
    assert {one.kernel for one in found} >= {"rms_norm/rms_norm", "head_topk/sums", "tree_attention/attend"}
    times = [one.ms.median for one in found if one.tokens == 4]
    assert times == sorted(times, reverse=True)
