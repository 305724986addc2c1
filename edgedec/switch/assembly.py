"""From loaded models to an engine in which two of them take turns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from edgedec.assemble.run_context import RunContext
from edgedec.assemble.runner import Runner
from edgedec.bundle.model_id import ModelId
from edgedec.control.switching import DEFAULT_RULE, EntropySwitching, SwitchRule, beside_itself
from edgedec.core.errors import UnsupportedError
from edgedec.drafters.pairing import paired, same_tokenizer
from edgedec.switch.engine import SwitchedEngine
from edgedec.switch.generators import HomeGenerator, RemoteGenerator
from edgedec.switch.spelling import ends_whole

if TYPE_CHECKING:
    from edgedec.switch.side import TextSide
    from edgedec.text.tokenizer import Tokenizer


def switched(runner: Runner, name: str, rule: SwitchRule | None, context: RunContext) -> SwitchedEngine:
    """Let the target of ``runner`` take turns with its small model, which was given as ``name``.

    ``rule``: None for the default. A line to ``context.notice`` announces it. Raises the
    errors of ``Runner``, UsageError for two models of the same content, and UnsupportedError for two
    vocabularies.
    """
    small = runner.prepared.small
    assert small is not None, "no small model was named"
    if ModelId.of(small.manifest).sha256 == ModelId.of(runner.model.manifest).sha256:
        raise beside_itself(small.name)  # a copy of it, under another name
    if not (same_tokenizer(runner.model, small) or paired(runner.model.tokenizer, small.tokenizer).same):
        raise UnsupportedError(
            f"{small.name} and {runner.model.name} have two vocabularies, and take no turns",
            hint="use a smaller model of the same family; a small model of any vocabulary can draft",
        )
    rule = rule or DEFAULT_RULE
    beside = Runner(runner.prepared.for_small(runner.forward.capacity))
    # Two models of one name are told apart by the name that the small one was given.
    called = small.name if small.name != runner.model.name else name.rpartition("/")[2]
    context.notice(
        f"note: {called} writes where it is sure, {runner.model.name} the rest; that is lossy "
        f"(threshold {rule.bits:g} bits)"
    )
    models = HomeGenerator(called, beside.engine), HomeGenerator(runner.model.name, runner.engine)
    decide = partial(EntropySwitching, rule)
    return SwitchedEngine(runner.engine, *models, decide, clock=context.clock, beside=beside.engine)


def with_side(runner: Runner, side: TextSide, rule: SwitchRule, context: RunContext) -> SwitchedEngine:
    """Let the target of ``runner`` be the small model, and take turns with a large one elsewhere.

    A lost side costs a line to ``context.notice``; the reply goes on without it.
    """
    tokenizer = runner.model.tokenizer

    info = tokenizer.info
    first = [info.bos_id] if info.add_bos else []  # the side begins its texts with a token of its own

    def text_of(tokens: Sequence[int]) -> str:
        return spelled_out(tokenizer, tokens[1:] if list(tokens[:1]) == first else tokens)

    large = RemoteGenerator(side, tokenizer, text_of, rule.least_run, context.notice)

    def whole(committed: Sequence[int]) -> bool:
        return ends_whole(raw_text(tokenizer, committed))

    small = HomeGenerator(runner.model.name, runner.engine, agrees=whole)
    context.notice(
        f"note: {small.name} writes where it is sure, {side.name} the rest; that is lossy, and the "
        "conversation is sent there"
    )
    return SwitchedEngine(runner.engine, small, large, partial(EntropySwitching, rule), clock=context.clock)


def spelled_out(tokenizer: Tokenizer, tokens: Sequence[int]) -> str:
    """Return ``tokens`` as text in which control tokens have their own spelling."""
    return raw_text(tokenizer, tokens).decode("utf-8", "replace")


def raw_text(tokenizer: Tokenizer, tokens: Sequence[int]) -> bytes:
    """Return the bytes of ``spelled_out``, which may end within a character."""
    pieces = [tokenizer.token_bytes(token) or tokenizer.token_text(token).encode() for token in tokens]
    return b"".join(pieces)
