"""The work that drafters with layers of their own count: bytes that their passes read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgedec.bundle.drafter_manifest import ASSISTANT, HEAD, MTP
from edgedec.draft.assistant import AssistantDrafter
from edgedec.draft.head import LayerDrafter
from edgedec.draft.trimmed import TrimmedHead
from tests.fixtures.carried import PLACES
from tests.fixtures.replies import GREEDY, PROMPT, always, reply

NOTHING_FOLLOWED = 2.0
"""A floor that no path reaches: the pass over committed tokens alone is computed."""


def drafter_of(kind: str, folder: Path) -> tuple[object, object]:
    runner = PLACES[kind](folder).runner()
    assert runner.engine.speculation
    (drafter,) = runner.engine.speculation._places.values()
    return drafter, runner


@pytest.mark.parametrize("kind", [HEAD, MTP])
def test_a_layer_counts_what_its_passes_read(tmp_path: Path, kind: str) -> None:
    drafter, _ = drafter_of(kind, tmp_path)
    assert isinstance(drafter, LayerDrafter)
    sizes = drafter.layer.sizes
    drafter.begin([1, 2, 3, 4], 0)
    drafter.read(0, np.ones((3, sizes.width), np.float32))
    assert (drafter.bytes_read, drafter.passes, drafter.table_bytes) == (0, 0, 0)
    drafter.propose(4, NOTHING_FOLLOWED)
    whole = sizes.always + sizes.committed + sizes.head + 3 * sizes.slot
    assert (drafter.bytes_read, drafter.passes, drafter.table_bytes) == (whole, 1, sizes.table)
    drafter.propose(1)  # nothing is fed for it: the answer behind the committed tokens is known
    assert drafter.passes == 1
    drafter.propose(8)
    assert drafter.bytes_read >= whole + (drafter.passes - 1) * (sizes.always + sizes.head + 4 * sizes.slot)
    assert drafter.table_bytes == drafter.passes * sizes.table
    weights = drafter.layer.nbytes()["weights"]
    assert sizes.always + sizes.committed + (sizes.head if kind == HEAD else 0) == weights


def test_a_trimmed_head_reads_fewer(tmp_path: Path) -> None:
    from edgedec.draft.mtp import MtpDrafter

    drafter, _ = drafter_of(MTP, tmp_path)
    assert isinstance(drafter, MtpDrafter)
    ids = np.arange(drafter.layer.sizes.ids // 2, dtype=np.int64)
    trimmed = MtpDrafter(drafter.layer, 1, TrimmedHead(ids, 1.0))
    for one in (drafter, trimmed):
        one.begin([1, 2, 3, 4], 0)
        one.read(0, np.ones((3, one.layer.sizes.width), np.float32))
        one.propose(4, NOTHING_FOLLOWED)
        one.layer.rewind(0)
    sizes = drafter.layer.sizes
    assert drafter.bytes_read - trimmed.bytes_read == sizes.head - sizes.head * ids.size // sizes.ids


def test_an_assistant_counts_the_keys_that_it_reads(tmp_path: Path) -> None:
    drafter, runner = drafter_of(ASSISTANT, tmp_path)
    assert isinstance(drafter, AssistantDrafter)
    with always(runner.engine):  # type: ignore[attr-defined]
        reply(runner.engine, PROMPT, GREEDY, 8)  # type: ignore[attr-defined]
    sizes = drafter._steps.sizes
    keys = [drafter.bytes_read - drafter.passes * sizes.weights]
    assert drafter.passes > 4
    assert drafter.passes * len(PROMPT) < sum(keys) / min(slot for slot, _ in sizes.caches)
