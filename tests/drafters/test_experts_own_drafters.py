"""Conversations at random whose experts come from the disk, with drafters that belong to their target.

Beside each stands one with all weights in memory and without drafts. They are rewound, saved, restored into
runs with other budgets, and computed together in batches.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgedec.assemble.runner import Runner
from edgedec.backends.onnx import expert_store
from edgedec.bundle.drafter_manifest import ASSISTANT, HEAD, MTP
from tests.drafters.test_random_conversations import SAYS, How, Runs, check
from tests.fixtures.tiny_experts import ExpertShape

CASES = {
    "head": (HEAD, "qwen3moe", {"keep": range(SAYS)}),
    "head of granite": (HEAD, "granitemoe", {"keep": range(SAYS)}),
    "head over convolutions": (HEAD, "lfm2moe", {"keep": range(SAYS), "taps": (1, 2, 3)}),
    "head over windows": (HEAD, "gpt-oss", {"keep": range(SAYS), "taps": (0, 2, 4)}),
    "mtp over delta states": (MTP, "qwen35moe", {}),
    "assistant of Gemma 4": (ASSISTANT, "gemma4moe", {}),
}
FAST, ALL = range(1), range(1, 62)
PLENTY = 1 << 40


class StreamedRuns(Runs):
    """Runs with experts from the disk, and other slots each time; those without drafts have all in memory."""

    experts = ExpertShape(24, 3, width=32)
    _slots = random.Random(5)

    def of(self, how: How, number: int = 0) -> Runner:
        in_memory = how.draft == "off"
        with pytest.MonkeyPatch.context() as patch:
            if in_memory:
                patch.setattr(expert_store, "available_bytes", lambda: PLENTY)
            made = super().of(how, number)
        store = made.model.backend.experts
        assert (store is None) == in_memory
        if store and not how.budget:
            store.most = store.experts.total
            store.limit(self._slots.choice([1, 13, 30, 1000]))
        return made


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_left_in_the_machine() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(expert_store, "available_bytes", lambda: 1)
        yield


@pytest.fixture(scope="module", params=CASES)
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return StreamedRuns(tmp_path_factory.mktemp("runs"), *CASES[request.param])


def test_conversations(runs: Runs, tmp_path: Path) -> None:
    check(runs, tmp_path / "talk", FAST)


@pytest.mark.slow
def test_many_conversations(runs: Runs, tmp_path: Path) -> None:
    check(runs, tmp_path / "talk", ALL)
