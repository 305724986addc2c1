"""Random requests to small models on emulated phones: the answers of the Python runtime of this machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from edgedec.bundle.manifest import Manifest
from edgedec.export import export_gguf
from edgedec.models.catalogue import CATALOGUE
from tests.android.arm_engine import ArmRuns
from tests.fixtures import twins
from tests.fixtures.tiny_hybrid import HYBRIDS, PLAIN
from tests.fixtures.tiny_models import tiny_bundle
from tests.kernels.arm import needs_arm
from tests.native.cases import Case, PythonRuns, cases, differences

CPUS = {"max": "neon_i8mm", "cortex-a76": "neon_dotprod"}
"""Emulated CPU -> the row that its capabilities lead to."""
DRAFTS = ("off", "lookup,recycling", "lookup,exit-2")

pytestmark = [needs_arm, pytest.mark.slow]


def requests(bundle: Path, seed: int, count: int, longest: int) -> list[Case]:
    """Requests of any kind, and some with long replies that repeat themselves, so that drafts are right."""
    found = cases(seed, count, Manifest.load(bundle).spec.vocab_size)
    for case in found[: count // 4]:
        sharp = replace(case.params, temperature=min(case.params.temperature, 0.05), edt=0.0, mirostat=0.0)
        found.append(replace(case, params=sharp, max_tokens=longest, stops=(), cancel=None))
    return found


def same_answers(bundle: Path, phone: ArmRuns, every: list[Case], context: int) -> None:
    """Check them against a runtime whose KV cache is empty at first, too: outcomes say what was reused."""
    python = PythonRuns(bundle, context=context)
    try:
        assert differences(python, phone, every) == []
    finally:
        python.close()


@pytest.fixture(scope="module", params=[*PLAIN, "gemma4", *HYBRIDS])
def bundle(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_bundle(tmp_path_factory.mktemp(request.param), request.param)


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("cpu", CPUS)
def test_every_architecture_answers_as_python(bundle: Path, cpu: str, draft: str) -> None:
    seed = [*CPUS].index(cpu) * len(DRAFTS) + DRAFTS.index(draft)
    if "exit" in draft and Manifest.load(bundle).spec.caches:
        pytest.skip("its bundle has no early exits")
    with ArmRuns(bundle, cpu, draft) as phone:
        assert phone.stats()["isa"] == CPUS[cpu]
        same_answers(bundle, phone, requests(bundle, seed, 32, 120), context=256)
        assert (phone.drafted > 20) == (draft != "off")


@pytest.mark.parametrize("name", CATALOGUE)
def test_twins_of_the_catalogue_answer_as_python(name: str, tmp_path: Path) -> None:
    """With their mixtures of formats, windows, states and experts; the context is short."""
    bundle = tmp_path / "bundle"
    export_gguf(twins.write_twin(tmp_path / "twin.gguf", CATALOGUE[name]), bundle)
    context = Manifest.load(bundle).spec.context_length
    with ArmRuns(bundle, "max", "lookup,recycling", context=context) as phone:
        same_answers(bundle, phone, requests(bundle, 1, 24, 30), context=context)
