"""The words that ``edgedec plan`` has for the parts of a memory plan."""

from __future__ import annotations

from edgedec.cli.plan import WHY
from edgedec.core.model_spec import ModelSpec
from edgedec.memory.footprint import MemoryChoice, MemoryFacts, ModelMemory, footprint

SPEC = ModelSpec("small", "llama", 49152, 30, 9, 3, 64, 576, 8192, ffn_size=1536)


def test_every_part_of_a_plan_has_its_words() -> None:
    model = ModelMemory(SPEC, 98_000_000, threads=2, hidden=3 * 576, exits=8)
    others = {"drafter": model, "head": model, "small": model}
    everything = MemoryFacts(model, 85_000_000, drawing=120, **others, speckv=True)
    parts = footprint(everything, MemoryChoice(4096, tables=1_000_000, model_drafts=True))
    assert parts.keys() == WHY.keys()
