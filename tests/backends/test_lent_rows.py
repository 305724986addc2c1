"""Rows that a pass lends: in memory of the model's own, which the next pass overwrites."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgedec.backends.onnx.forward import OnnxForward
from edgedec.backends.onnx.model import OnnxModel
from edgedec.bundle.manifest import Manifest
from edgedec.core.cache_config import CacheConfig
from edgedec.core.errors import BackendError
from edgedec.core.ledger import Ledger
from edgedec.core.rows import HeadRows, Rows
from edgedec.core_lib.engine import CoreEngine
from edgedec.decode.engine import Engine
from edgedec.sampling import DrawParams

Bundles = Callable[[str], Path]
PARTS, PLENTY = ("rows", "slack", "scratch", "kv_cache"), 1 << 40
WHOLE = Rows(last=True, full=True, temperature=0.5, lent=True)


def forward_of(bundle: Path, ledger: Ledger) -> OnnxForward:
    model = OnnxModel(bundle, Manifest.load(bundle), threads=1, spin=False)
    return model.forward(CacheConfig(128), ledger)


@pytest.fixture
def bundle(tiny_bundle: Bundles) -> Path:
    return tiny_bundle("qwen2")


def bits(rows: HeadRows) -> bytes:
    assert rows.logits is not None
    lists = rows.values, rows.ids, rows.logsumexp, rows.entropy, rows.logits
    return b"".join(each.tobytes() for each in lists)


def test_lent_rows_have_the_bits_of_fresh_ones(bundle: Path) -> None:
    lending, fresh = forward_of(bundle, Ledger()), forward_of(bundle, Ledger())
    last, chosen = replace(WHOLE, lent=False), Rows((1, 2, 3), full=True, temperature=0.5)
    for tokens, rows in (([5], last), ([6, 7, 8, 9], chosen), ([3], last)):
        lent = replace(rows, lent=True)
        assert bits(lending.extend(tokens, rows=lent)) == bits(fresh.extend(tokens, rows=rows))


def test_lent_memory_is_used_again_and_leased_once(bundle: Path) -> None:
    ledger = Ledger()
    forward = forward_of(bundle, ledger)
    first = forward.extend([5], rows=WHOLE)
    before, held = bits(first), ledger.by_name()["rows"]
    second = forward.extend([6], rows=WHOLE)
    assert second is first
    assert bits(first) != before
    assert ledger.by_name()["rows"] == held == 4 * forward.spec.vocab_size


def test_more_rows_get_other_memory_and_all_shapes_follow(bundle: Path) -> None:
    ledger = Ledger()
    forward, other = forward_of(bundle, ledger), forward_of(bundle, Ledger())
    forward.extend([5], rows=WHOLE)
    forward.extend([6, 7], rows=Rows(full=True, temperature=0.5, lent=True))
    other.extend([5, 6, 7])
    again = other.extend([8], rows=Rows(last=True, full=True, temperature=0.5))
    assert bits(forward.extend([8], rows=WHOLE)) == bits(again)
    assert ledger.by_name()["rows"] == 2 * 4 * forward.spec.vocab_size


def test_fresh_rows_between_lent_ones_stay_as_they_are(bundle: Path) -> None:
    forward = forward_of(bundle, Ledger())
    forward.extend([5], rows=WHOLE)
    fresh = forward.extend([6], rows=Rows(last=True, full=True))
    before = bits(fresh)
    lent = forward.extend([7], rows=WHOLE)
    assert bits(fresh) == before
    assert lent.temperature == 0.5
    assert not np.shares_memory(fresh.values, lent.values)


@pytest.mark.parametrize("under", [False, True])
def test_within_a_budget_nothing_is_kept_for_rows(under: bool, bundle: Path) -> None:
    ledger = Ledger(dict.fromkeys((*PARTS, "small"), PLENTY))
    forward = forward_of(bundle, ledger.under("small", shared=("rows",)) if under else ledger)
    rows = forward.extend([5], rows=WHOLE)
    assert bits(rows) == bits(forward_of(bundle, Ledger()).extend([5], rows=WHOLE))
    assert not np.shares_memory(rows.values, forward.extend([6], rows=WHOLE).values)
    del rows
    assert "rows" not in ledger.by_name()


def test_an_error_that_is_kept_keeps_no_lease_of_rows(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(dict.fromkeys(PARTS, PLENTY))

    def fails(engine: CoreEngine, head: HeadRows, *time: object) -> None:
        assert ledger.by_name()["rows"] > 0
        raise BackendError("broken")

    monkeypatch.setattr(CoreEngine, "finish", fails)
    steps = Engine(forward_of(bundle, ledger)).generate(
        [1, 2, 3], DrawParams(temperature=0.5, repetition_penalty=1.1), max_tokens=3, stop_ids=()
    )
    with pytest.raises(BackendError, match="broken") as kept:
        next(steps)
    assert kept.value.__traceback__ is not None
    assert "rows" not in ledger.by_name()
