"""The native engine's memory plans, ledger and sizes against Python's: the same numbers and words."""

from __future__ import annotations

import mmap
from ctypes import c_char_p, c_int, c_int64, c_size_t, c_void_p
from dataclasses import replace
from json import loads
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgedec.core.errors import EdgeDecError, MemoryBudgetError
from edgedec.core.ledger import Ledger
from edgedec.core.model_spec import ModelSpec
from edgedec.core.units import size, size_up
from edgedec.drafters.model import draft_memory
from edgedec.memory.footprint import MemoryChoice, MemoryFacts, ModelMemory
from edgedec.memory.plan import least, planned, with_drawing
from edgedec.native.probe import function, text_function
from edgedec.telemetry import process
from tests.native.native_forward import sizes_of

MB = 1_000_000
UNLIMITED = 1 << 50


def random_spec(rng: np.random.Generator) -> ModelSpec:
    def one(*among: int) -> int:
        return int(rng.choice(among))

    kv_heads, layers = one(1, 2, 3, 4, 8), one(1, 2, 18, 28, 30, 61)
    windowed = int(rng.integers(0, layers + 1)) if rng.random() < 0.4 else 0
    return ModelSpec(
        f"model {int(rng.integers(10))}",
        "llama",
        one(256, 32000, 49152, 151936, 262144),
        layers,
        kv_heads * one(1, 2, 3, 7),
        kv_heads,
        one(8, 64, 80, 128, 256),
        one(64, 576, 1536, 4096),
        one(64, 2048, 8192, 131072),
        ffn_size=one(96, 1536, 8960, 14336),
        n_window_layers=windowed,
        window=one(8, 512, 4096) if windowed else 0,
        head_k=one(1, 64),
    )


def random_case(rng: np.random.Generator) -> tuple[MemoryFacts, MemoryChoice, ModelMemory]:
    def below(most: int) -> int:
        return int(rng.integers(0, most))

    target, draft = (ModelMemory(random_spec(rng), below(2000) * MB, 1 + below(8)) for _ in range(2))
    if rng.random() < 0.3:
        target = replace(target, hidden=3 * target.spec.hidden_size, exits=4)
    drafts = rng.random() < 0.4
    facts = MemoryFacts(
        target,
        process=below(200) * MB,
        drawing=int(rng.choice([0, 4, 20, 120])),
        drafters=(draft_memory(draft),) if drafts else (),
        unnamed=drafts and bool(rng.random() < 0.5),
    )
    context = min(int(rng.choice([40, 64, 512, 4096, 100_000])), target.spec.context_length)
    drafted = int(rng.choice([0, 1, 15, 31])) if not drafts else 15
    choice = MemoryChoice(
        context,
        "int8" if rng.random() < 0.3 else "fp16",
        min(128, context),
        drafted,
        int(rng.choice([0, 1 << 18, 3 * MB, 20 * MB])) if drafted else 0,
        drafts,
    )
    return facts, choice, draft


def native(
    facts: MemoryFacts, wanted: MemoryChoice, draft: ModelMemory, budget: int, elastic: bool, drawing: int
) -> dict[str, Any]:
    target = facts.target
    numbers = [
        *sizes_of(target.spec), target.weights, target.threads, target.hidden, target.exits, facts.process,
        facts.drawing, draft.weights if wanted.model_drafts else 0, *sizes_of(draft.spec), draft.threads,
        budget, wanted.context, wanted.kv == "int8", 128, wanted.drafted, wanted.tables, not elastic,
        not facts.unnamed, drawing,
    ]  # fmt: skip
    call = text_function("plan", c_char_p, c_void_p)
    found = call(target.spec.name.encode(), (c_int64 * len(numbers))(*numbers))
    assert found is not None
    plan: dict[str, Any] = loads(found)
    return plan


def reference(
    facts: MemoryFacts, wanted: MemoryChoice, budget: int, elastic: bool, drawing: int
) -> dict[str, Any]:
    try:
        plan = planned(facts, wanted, budget or UNLIMITED, elastic=elastic)
        plan = with_drawing(plan, facts, drawing)
    except EdgeDecError as error:
        return {"code": error.exit_code, "message": error.message, "hint": error.hint}
    choice = plan.choice
    return {
        "budget": plan.budget,
        "peak": plan.peak,
        "choice": [
            choice.context, choice.kv, choice.prompt_pass, choice.drafted, choice.tables, choice.model_drafts
        ],
        "parts": dict(plan.parts),
        "given_up": list(plan.given_up),
    }  # fmt: skip


def compare_plans(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    fits = 0
    for _ in range(count):
        facts, wanted, draft = random_case(rng)
        if wanted.model_drafts and not draft.weights:
            continue
        budget = least(facts, wanted) + int(rng.integers(-30, 900)) * MB // int(rng.choice([1, 3, 100]))
        budget = 0 if rng.random() < 0.05 else max(budget, 1)
        elastic = bool(rng.random() < 0.5)
        drawing = int(rng.choice([0, 0, 30, 200]))
        expected = reference(facts, wanted, budget, elastic, drawing)
        assert native(facts, wanted, draft, budget, elastic, drawing) == expected
        fits += "parts" in expected
    assert fits > count // 3


def test_plans_of_random_models_and_budgets() -> None:
    compare_plans(0, 150)


@pytest.mark.slow
def test_many_plans() -> None:
    compare_plans(1, 20_000)


def test_absurd_sizes_fit_nothing_and_overflow_nothing() -> None:
    most = 2**31 - 1
    spec = ModelSpec("absurd", "llama", most, most, most, most, most, most, most, ffn_size=most)
    rings = replace(spec, n_window_layers=most, window=most)
    for one in (spec, rings):
        facts = MemoryFacts(ModelMemory(one, 2**62, 1 << 20), process=2**62, drawing=200)
        wanted = MemoryChoice(4096, tables=1 << 40)
        found = native(facts, wanted, ModelMemory(one, 0, 1), 10**9, False, 0)
        assert found["code"] == MemoryBudgetError.exit_code
        assert found["message"].startswith("absurd does not fit 1.0 GB: it needs ")


def test_sizes_in_words() -> None:
    call = text_function("size_text", c_int64, c_int)
    rng = np.random.default_rng(0)
    counts = [0, 1, 999, 1000, 1049, 1050, 1051, 1150, 999_949, 999_950, 999_999, 10**15, 2**50]
    counts += [int(10 ** float(rng.uniform(0, 15))) for _ in range(500)] + [n * 50 for n in range(20, 400)]
    for count in counts:
        assert call(count, 0).decode() == size(count)
        assert call(count, 1).decode() == size_up(count)


def test_a_ledger_counts_and_refuses_as_python_does() -> None:
    rng = np.random.default_rng(1)
    refused = 0
    for _ in range(200):
        share = int(rng.integers(0, 3000)) * 1000 if rng.random() < 0.8 else None
        ledger = Ledger(None if share is None else {"tables": share, "slack": 5_000_000})
        steps, held, error = [], 0, None
        for _ in range(10):
            step = int(rng.integers(0, 500_000)) if rng.random() < 0.7 else -int(rng.integers(0, held + 1))
            steps.append(step)
            try:
                ledger.taken("tables", step) if step >= 0 else ledger.returned("tables", -step)
            except MemoryBudgetError as found:
                error = {"code": 10, "message": found.message, "hint": found.hint}
                break
            held += step
        facts, array = (c_int64 * 2)(), (c_int64 * len(steps))(*steps)
        call = text_function("leases", c_int64, c_void_p, c_size_t, c_void_p)
        said = call(-1 if share is None else share, array, len(steps), facts)
        assert (loads(said) if said else None) == error
        assert list(facts) == [ledger.by_name().get("tables", 0), ledger.most().get("tables", 0)]
        refused += error is not None
    assert 20 < refused < 190


def test_the_process_is_measured_as_python_does(tmp_path: Path) -> None:
    path = tmp_path / "some pages"
    path.write_bytes(bytes(1 << 20))
    found = (c_int64 * 4)()
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as pages:
        assert sum(pages[:: 1 << 12]) == 0
        function("process", None, c_char_p, c_char_p, c_void_p)(path.name.encode(), str(path).encode(), found)
        assert found[2] == process.mapped_rss_bytes(path.name) == 1 << 20
        assert found[3] == process.mapped_bytes(path) == 1 << 20
    assert found[0] == pytest.approx(process.rss_bytes(), rel=0.1)
    assert found[1] == pytest.approx(process.peak_rss_bytes(), rel=0.1)
