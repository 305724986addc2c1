"""The probe: a device's own operations are judged by a file of exact results; integers are always right."""

from __future__ import annotations

import json
import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from edgedec.backends.gpu import arithmetic, shaders
from edgedec.backends.gpu.device import GpuDevice
from tests.gpu import adapters, cases, probe_data
from tests.gpu.exact_numbers import Exact, bits, fraction, rounded

EXACT = dict.fromkeys(shaders.PRIMITIVES, shaders.EXACT)
NATIVE = dict.fromkeys(shaders.PRIMITIVES, shaders.NATIVE)
FILE: dict[str, Any] = json.loads(arithmetic.DATA.read_text(encoding="utf-8"))


@pytest.fixture(params=adapters.found(), ids=lambda one: one.name.split()[0])
def device(request: pytest.FixtureRequest) -> GpuDevice:
    return adapters.opened(request.param)


def test_the_file_is_what_its_program_makes() -> None:
    assert probe_data.data() == FILE


def test_rounding_agrees_with_numpy() -> None:
    rng = random.Random(0)
    for _ in range(2000):
        value = rng.choice((-1, 1)) * rng.random() * 2.0 ** rng.randint(-150, 128)
        with np.errstate(over="ignore"):
            assert rounded(Fraction(value)) == int(np.array([value]).astype(np.float32).view(np.uint32)[0])


def test_fractions_keep_the_sign_of_a_zero_that_rounding_makes() -> None:
    least = bits(2.0**-149)
    assert Exact().mul(least | 1 << 31, least) == 1 << 31
    assert Exact().fma(bits(2.0), bits(3.0), bits(-6.0)) == 0
    assert fraction(least) == Fraction(1, 1 << 149)


def large(count: int, seed: int) -> cases.KernelCase:
    """All functions of the probe on ``count`` triples; the expected bytes are not used."""
    a, b, c = probe_data.operands(count, seed)
    out = np.zeros(count * len(probe_data.RESULTS), np.uint32)
    return cases.KernelCase("wgsl/probe", {}, (a, b, c, out), {4: out}, (-(-count // 64), 1, 1))


def by_numpy(a: Any, b: Any, c: Any) -> dict[str, Any]:
    """Operations of one rounding, by the CPU."""
    x, y, z = (one.view(np.float32) for one in (a, b, c))
    with np.errstate(all="ignore"):
        return {
            "product": x * y,
            "sum": y + z,
            "difference": y - z,
            "product and sum": x * y + z,
            "sum and difference": (x + z) - x,
            "quotient": x / y,
            "root": np.sqrt(z),
            "half to float": (a & np.uint32(0xFFFF)).astype(np.uint16).view(np.float16).astype(np.float32),
        }


def check_integers(device: GpuDevice, count: int, seed: int) -> None:
    case = large(count, seed)
    got = np.frombuffer(cases.run(device, case, EXACT)[4], np.uint32).reshape(-1, count)
    a, b, c = case.inputs[:3]
    expected = by_numpy(a, b, c)
    triples = zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
    expected["fma"] = np.array([Exact().fma(*one) for one in triples], np.uint32).view(np.float32)
    for (name, _, _), words in zip(probe_data.RESULTS, got, strict=True):
        if name in expected:
            assert not list(cases.compared(0, 4, expected[name], words.tobytes())), name


def test_integers_are_right_for_every_operand(device: GpuDevice) -> None:
    check_integers(device, 2048, seed=1)


@pytest.mark.slow
def test_integers_are_right_for_a_hundred_thousand_triples(device: GpuDevice) -> None:
    check_integers(device, 100_000, seed=2)


def test_a_device_is_exact_with_the_variants_that_the_probe_chooses(device: GpuDevice) -> None:
    found = cases.arithmetic(device)
    assert found.exact, found.describe()
    assert found.describe().startswith("exact: ")


@pytest.mark.slow
def test_integers_take_the_place_of_operations_that_make_small_numbers_zero(device: GpuDevice) -> None:
    found = cases.arithmetic(device, subnormals=True)
    assert found.exact
    assert found.flushed == ()
    assert found.variants["basic"] == (shaders.EXACT if cases.arithmetic(device).flushed else shaders.NATIVE)


def answers(words: str, change: int = 0, at: int = 0) -> np.ndarray:
    data = np.frombuffer(probe_data.base64.b64decode(words), np.uint32).copy()
    data[at] ^= np.uint32(change)
    return data


def test_a_wrong_bit_names_the_operation() -> None:
    results = [
        arithmetic.compared(one, answers(one["words"], 1, one["kinds"].index("0"))) for one in FILE["results"]
    ]
    found = arithmetic.judged(EXACT, results)
    assert not found.exact
    assert len(found.failed) == len(probe_data.RESULTS)
    assert found.describe().startswith("not exact across devices: wrong fma, product, ")


def test_numbers_that_become_zero_are_an_exception_and_no_fault() -> None:
    product = next(one for one in FILE["results"] if one["name"] == "product")
    at = product["kinds"].index("2")
    result = arithmetic.compared(product, answers(product["words"], 1, at))
    found = arithmetic.judged(NATIVE, [result])
    assert found.exact
    assert found.flushed == ("product",)
    assert "numbers below 2^-126 become zero" in found.describe()


def test_any_nan_is_a_nan() -> None:
    root = next(one for one in FILE["results"] if one["name"] == "root")
    words = answers(root["words"])
    nan = (words & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
    assert nan.any()
    words[nan] = 0xFFC12345
    assert not arithmetic.compared(root, words).wrong


def test_a_compiler_without_the_packed_dot_product_gets_another(monkeypatch: pytest.MonkeyPatch) -> None:
    device = adapters.device()
    packed = shaders.text("wgsl/dot_native").replace("dot4I8Packed", "dot4Missing")
    real = shaders.text
    monkeypatch.setattr(shaders, "text", lambda name: packed if name == "wgsl/dot_native" else real(name))
    found = arithmetic.probe(device)
    assert found.variants["dot"] == shaders.EXACT
    assert found.exact
