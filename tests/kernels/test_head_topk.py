"""HeadTopK: top-k, logsumexp and entropy equal those of the logits, in every row, also of a subset."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.quant_rows import SCALAR, Packed, Runner, random_packed, runner_id, runners

VOCABULARIES = (1, 16, 63, 64, 65, 1023, 1024, 1025, 3000)


def inputs(r: int, cols: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 2, (r, cols)).astype(np.float32)


def check(out: dict[str, np.ndarray], logits: np.ndarray, k: int, temperature: float = 1.0) -> None:
    ids = np.arange(logits.shape[1])
    for row, line in enumerate(logits):
        order = np.lexsort((ids, -line))[: min(k, int(np.isfinite(line).sum()))]
        assert np.array_equal(out["ids"][row, : len(order)], order)
        assert np.array_equal(out["values"][row, : len(order)], line[order])
        assert np.all(out["ids"][row, len(order) :] == -1)
        wide = line[np.isfinite(line)].astype(np.float64) / temperature
        lse = wide.max() + np.log(np.exp(wide - wide.max()).sum())
        p = np.exp(wide - lse)
        assert out["logsumexp"][row] == pytest.approx(lse, abs=1e-5, rel=1e-6)
        assert out["entropy"][row] == pytest.approx(-(p * (wide - lse)).sum(), abs=2e-5)


@pytest.mark.parametrize("rows", VOCABULARIES)
@pytest.mark.parametrize("runner", [SCALAR, *runners()], ids=runner_id)
def test_head_reduces_its_own_logits(runner: Runner, rows: int) -> None:
    w, x = random_packed("q8_0", rows, 64, rows), inputs(3, 64, rows)
    out = runner.head(w, x, logits=True)
    assert out["logits"].tobytes() == SCALAR.linear(w, x).tobytes()
    check(out, out["logits"], 64)


@pytest.mark.parametrize("refined", [False, True])
@pytest.mark.parametrize("rows", [16, 1000, 2065])
@pytest.mark.parametrize("runner", [SCALAR, *runners()], ids=runner_id)
def test_a_softcap_bounds_every_logit(runner: Runner, rows: int, refined: bool) -> None:
    w, x = random_packed("q8_0", rows, 64, rows), inputs(18, 64, rows) * 4
    plain = runner.head(w, x, logits=True, refined=refined)["logits"].astype(np.float64)
    assert plain.std() > 4
    out = runner.head(w, x, logits=True, refined=refined, softcap=8.0)
    np.testing.assert_allclose(out["logits"], 8 * np.tanh(plain / 8), rtol=0, atol=3e-6)
    check(out, out["logits"], 64)
    expected = SCALAR.head(w, x, logits=True, refined=refined, softcap=8.0)
    assert all(out[name].tobytes() == expected[name].tobytes() for name in expected)


@pytest.mark.parametrize("refined", [False, True])
@pytest.mark.parametrize("runner", runners(), ids=runner_id)
def test_every_row_equals_scalar_bit_for_bit(runner: Runner, refined: bool) -> None:
    for format in ("q6_k", "q8_0", "q4_k"):
        w, x = random_packed(format, 2500, 256, 5), inputs(18, 256, 6)
        expected, got = (of.head(w, x, logits=True, refined=refined) for of in (SCALAR, runner))
        assert all(got[name].tobytes() == expected[name].tobytes() for name in expected)


@pytest.mark.parametrize("refined", [False, True])
@pytest.mark.parametrize("runner", [SCALAR, *runners()], ids=runner_id)
def test_a_row_does_not_see_its_neighbours(runner: Runner, refined: bool) -> None:
    w, x = random_packed("q6_k", 2100, 256, 5), inputs(20, 256, 8)
    together = runner.head(w, x, refined=refined)
    for i in range(20):
        alone = runner.head(w, x[i : i + 1], refined=refined)
        assert all(alone[name].tobytes() == together[name][i : i + 1].tobytes() for name in alone)


@pytest.mark.parametrize("runner", [SCALAR, *runners()], ids=runner_id)
def test_equal_logits_come_lowest_id_first(runner: Runner) -> None:
    one = random_packed("q8_0", 16, 64, 1)
    same = Packed("q8_0", 2048, 64, np.ascontiguousarray(np.repeat(one.data, 128, axis=0)))
    out = runner.head(same, inputs(1, 64, 3), k=64, logits=True)
    check(out, out["logits"], 64)
    assert np.array_equal(out["ids"][0], out["ids"][0, 0] + 16 * np.arange(64))


@pytest.mark.parametrize("runner", [SCALAR, *runners()], ids=runner_id)
def test_a_subset_of_the_vocabulary(runner: Runner) -> None:
    w, x = random_packed("q6_k", 3000, 256, 2), inputs(2, 256, 2)
    whole = runner.head(w, x, logits=True)
    keep = np.sort(np.random.default_rng(0).choice(3000, 1500, replace=False)).astype(np.int64)
    out = runner.head(w, x, keep=keep, logits=True)
    masked = np.full_like(whole["logits"], -np.inf)
    masked[:, keep] = whole["logits"][:, keep]
    assert np.array_equal(out["logits"], masked)
    check(out, masked, 64)
    everything = runner.head(w, x, keep=np.arange(3000, dtype=np.int64))
    assert all(everything[name].tobytes() == whole[name].tobytes() for name in everything)


@pytest.mark.parametrize("cols", [32, 256])
@pytest.mark.parametrize("runner", [SCALAR, *runners()], ids=runner_id)
def test_whole_tiles_and_parts_of_tiles_mix(runner: Runner, cols: int) -> None:
    w, x = random_packed("q8_0", 3000, cols, 2), inputs(17, cols, 2)
    whole = runner.head(w, x, logits=True)["logits"]
    parts = [(0, 16), (17, 32), (32, 65), (80, 1200), (1201, 1202), (1216, 1248), (1264, 3000)]
    keep = np.concatenate([np.arange(*part, dtype=np.int64) for part in parts])
    out = runner.head(w, x, keep=keep, logits=True)
    masked = np.full_like(whole, -np.inf)
    masked[:, keep] = whole[:, keep]
    assert np.array_equal(out["logits"], masked)
    check(out, masked, 64)


@pytest.mark.parametrize("rows", VOCABULARIES)
@pytest.mark.parametrize("subset", [False, True])
def test_refined_are_the_best_of_the_first_pass(rows: int, subset: bool) -> None:
    w, x = random_packed("q8_0", rows, 64, rows), inputs(3, 64, rows)
    keep = np.arange(0, rows, 3, dtype=np.int64) if subset else None
    first, fine = SCALAR.head(w, x, keep=keep, logits=True), SCALAR.linear(w, x, terms=2)
    expected = first["logits"].copy()
    for row, ids in enumerate(first["ids"]):
        ids = ids[ids >= 0]
        others = len(ids) < (rows if keep is None else len(keep))
        floor = np.nextafter(first["values"][row, -1], np.float32(np.inf)) if others else -np.inf
        expected[row, ids] = np.maximum(fine[row, ids], floor)
    out = SCALAR.head(w, x, keep=keep, logits=True, refined=True)
    assert np.array_equal(out["logits"], expected)
    for row in range(3):
        assert set(out["ids"][row]) == set(first["ids"][row])
    check(out, expected, min(64, rows if keep is None else len(keep)))


@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0, 1e5])
@pytest.mark.parametrize("refined", [False, True])
def test_sums_of_any_spread(scale: float, refined: bool) -> None:
    w, x = random_packed("q8_0", 2048, 64, 4), inputs(4, 64, 4) * np.float32(scale)
    out = SCALAR.head(w, x, logits=True, refined=refined)
    p = out["logits"].astype(np.float64) - out["logits"].max(axis=1, keepdims=True)
    total = np.exp(p).sum(axis=1)
    assert out["logsumexp"] == pytest.approx(np.log(total) + out["logits"].max(axis=1), rel=1e-6, abs=1e-5)
    entropy = np.log(total) - (np.exp(p) * p).sum(axis=1) / total
    assert out["entropy"] == pytest.approx(entropy, abs=3e-5)


@pytest.mark.parametrize("refined", [False, True])
@pytest.mark.parametrize("temperature", [0.1, 0.75, 3.0])
@pytest.mark.parametrize("runner", [SCALAR, *runners()], ids=runner_id)
def test_a_temperature_moves_the_sums_alone(runner: Runner, temperature: float, refined: bool) -> None:
    w, x = random_packed("q8_0", 3000, 64, 3), inputs(18, 64, 3)
    plain = runner.head(w, x, logits=True, refined=refined)
    out = runner.head(w, x, logits=True, refined=refined, temperature=temperature)
    for name in ("values", "ids", "logits"):
        assert out[name].tobytes() == plain[name].tobytes()
    assert np.abs(out["logsumexp"] - plain["logsumexp"]).min() > 0.1
    check(out, out["logits"], 64, temperature)
    expected = SCALAR.head(w, x, logits=True, refined=refined, temperature=temperature)
    alone = [runner.head(w, x[i : i + 1], refined=refined, temperature=temperature) for i in range(len(x))]
    for name in ("logsumexp", "entropy"):
        assert out[name].tobytes() == expected[name].tobytes()
        assert out[name].tobytes() == b"".join(one[name].tobytes() for one in alone)


@pytest.mark.parametrize("temperature", [1e-30, 1.0, 1e30])
@pytest.mark.parametrize("refined", [False, True])
def test_far_apart_logits_do_not_overflow(refined: bool, temperature: float) -> None:
    w, x = random_packed("q8_0", 2048, 64, 4), inputs(1, 64, 4) * 1e5
    out = SCALAR.head(w, x, logits=True, refined=refined, temperature=temperature)
    check(out, out["logits"], 64, temperature)
    assert np.isfinite(out["entropy"]).all()
