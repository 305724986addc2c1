"""Real models in the library as an app has it, in qemu: the tokens and the text of x86, with drafts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgedec.sampling import DrawParams
from tests.android.arm_engine import ArmRuns
from tests.android.phone import phone_folder
from tests.kernels.arm import needs_arm
from tests.native.cases import Case, differences
from tests.native.native_runs import NativeRuns

SAMPLED = DrawParams(temperature=0.9, top_k=40, seed=11)
QUESTION = ("Write the word apple three times.",)
COUNTING = "one two three one two three one two three one two"
YEAR = {"type": "integer", "minimum": 0, "maximum": 2100}
PERSON = json.dumps(
    {
        "type": "object",
        "properties": {"name": {"type": "string"}, "year": YEAR},
        "required": ["name", "year"],
        "additionalProperties": False,
    }
)
CASES = {
    "smollm2-135m": (
        Case(DrawParams(), messages=QUESTION, max_tokens=32),
        Case(SAMPLED, messages=(*QUESTION, "apple", "Écris-le en français \N{RED APPLE}"), max_tokens=32),
        Case(DrawParams(), messages=("Who was the first man on the moon?",), max_tokens=32, schema=PERSON),
        Case(SAMPLED, text="The", max_tokens=32, choices=("Eiffel tower is in Paris, the capital of all",)),
    ),
    "gemma3-270m": (
        Case(DrawParams(), text=COUNTING, max_tokens=48),
        Case(SAMPLED, text="La tour Eiffel est à", max_tokens=32),
    ),
    "qwen2.5-coder-1.5b": (
        Case(DrawParams(), text=COUNTING, max_tokens=16),
        Case(SAMPLED, messages=("1+1?",), max_tokens=16),
    ),
}
DRAFTS = {"qwen2.5-coder-1.5b": "off"}
"""Of other models lookup and recycling; for this one the costs of passes take minutes to measure in qemu."""
PASS_NS = 50_000_000

pytestmark = [needs_arm, pytest.mark.slow]


@pytest.mark.parametrize("cpu", ["max", "cortex-a76"])
@pytest.mark.parametrize("name", CASES)
def test_replies_on_the_phones_library_are_those_of_x86(name: str, cpu: str, tmp_path: Path) -> None:
    model = phone_folder(name, tmp_path / "model")
    here = NativeRuns(model)
    try:
        draft = DRAFTS.get(name, "lookup,recycling")
        with ArmRuns(model, cpu, draft, threads=2, pass_ns=PASS_NS) as phone:
            assert differences(here, phone, CASES[name]) == []
            assert all(len(here.run(case).tokens) > 8 for case in CASES[name])
            assert (phone.drafted > 0) == (draft != "off")
    finally:
        here.close()
