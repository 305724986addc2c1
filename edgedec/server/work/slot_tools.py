"""The parts of a model from which its slots are made."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING

from edgedec.core.quick_dataclass import dataclass

if TYPE_CHECKING:
    from edgedec.api import Model
    from edgedec.metrics.measures import Measures
    from edgedec.session.engine import ReplyEngine
    from edgedec.session.saved_prefixes import SavedPrefixes
    from edgedec.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class SlotTools:
    """The parts of a model that a slot's replies need.

    ``turn`` is entered while a reply computes. ``share`` counts the slot's passes, a pass over several slots
    in part: as its tokens in it.
    """

    engine: ReplyEngine
    tokenizer: Tokenizer
    measures: Measures
    turn: Callable[[], AbstractContextManager[object]]
    share: Callable[[], float]
    prefixes: SavedPrefixes | None = None
    """Beginnings of prompts on the disk."""


def slot_tools(model: Model) -> list[SlotTools]:
    """Return the parts of each slot of a model; one for each conversation that it was opened for."""
    runner, tokenizer = model.runner, model.loaded.codec.clone().tokenizer
    return [
        SlotTools(
            engine,
            tokenizer,
            runner.measures,
            partial(runner.reply, number),
            partial(runner.passes, number),
            model.prefixes,
        )
        for number, engine in enumerate(model.engines)
    ]
