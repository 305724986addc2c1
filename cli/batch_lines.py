"""``edgedec batch --input``: every line of a file is a prompt; a batch of them shares each pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgedec.cli import screen
from edgedec.cli.cut import Limits
from edgedec.cli.form import say_law
from edgedec.cli.interrupts import interrupts_to
from edgedec.cli.opening import open_model, say_overrun, without_template
from edgedec.cli.progress import notice
from edgedec.cli.remedies import hint_of
from edgedec.cli.text_input import PromptLine, prompt_lines
from edgedec.core.errors import EdgeDecError
from edgedec.core.quick_dataclass import dataclass

if TYPE_CHECKING:
    from edgedec.assemble.config import RunConfig
    from edgedec.cli.options import BatchReplyOptions
    from edgedec.grammar import GrammarSpec
    from edgedec.session.conversations import Conversations
    from edgedec.session.reply import Reply

_SHOWN = 60
"""Characters of a prompt above its reply."""
_NUMBERS = 10
"""Numbers of lines in one message."""


@dataclass(frozen=True, slots=True)
class LineJob:
    """A file of prompts, and the model that answers them."""

    source: Path
    model: str
    config: RunConfig
    form: GrammarSpec | None = None
    """The form that replies must have."""


def run(ctx: click.Context, asked: LineJob, options: BatchReplyOptions, *, as_json: bool) -> None:
    """Answer every line that is not empty; one that cannot be answered is reported.

    Raises an error of the kind that the first such line has, once all are answered.
    """
    every = prompt_lines(asked.source)
    opened = open_model(ctx, asked.model, asked.config)
    raw, system = without_template(opened, raw=options.raw, system=options.system)
    several = opened.conversations(
        system=system, max_tokens=options.max_tokens, stop=options.stops, grammar=asked.form
    )
    say_law(asked.form, several.chats[0].settings.params)
    lines = [_without_excess(line, several.chats[0].prompts.most_bytes()) for line in every]
    del every
    with several, interrupts_to(several.interrupt):
        shown = 0
        failed: dict[int, EdgeDecError] = {}
        if as_json:
            several.measure()
        cut: dict[str, list[int]] = {"length": [], "context": [], "loop": []}
        for outcome in _outcomes(several, lines, raw):
            if outcome.error:
                failed[outcome.line.number] = outcome.error
            if as_json:
                _show_json(outcome, several)
            else:
                _show(outcome, first=not shown)
            reason = outcome.reply.finish_reason if outcome.reply else None
            shown += reason != "interrupted"
            if reason in cut:
                cut[reason].append(outcome.line.number)
    if not as_json:
        limits = Limits(several.context, opened.loaded.spec.context_length, slides=False)
        for line in limits.of_several(cut):
            notice(line)
    say_overrun(opened)
    if shown < len(lines):
        raise KeyboardInterrupt
    if failed:
        raise _failure(failed, len(lines))


@dataclass(frozen=True, slots=True)
class _Outcome:
    line: PromptLine
    reply: Reply | None = None
    error: EdgeDecError | None = None


def _without_excess(line: PromptLine, most_bytes: int | None) -> PromptLine:
    """Return a line that is too long for a prompt without what makes it longer still."""
    if most_bytes is None or len(line.text) <= most_bytes:
        return line
    return replace(line, text=line.text[: most_bytes + 1])


def _outcomes(several: Conversations, lines: list[PromptLine], raw: bool) -> Iterator[_Outcome]:
    """Yield a reply or an error for every line, in their order; fewer when the replies were interrupted."""
    answers = several.answers([line.text for line in lines if line.error is None], raw=raw)
    for line in lines:
        if line.error:
            yield _Outcome(line, error=line.error)
            continue
        if (answer := next(answers, None)) is None:
            return
        if answer.error is not None and not isinstance(answer.error, EdgeDecError):
            raise answer.error
        yield _Outcome(line, None if answer.error else answer.reply, answer.error)


def _failure(failed: dict[int, EdgeDecError], count: int) -> EdgeDecError:
    """Return the first error, in words that are true of all."""
    numbers = ", ".join(map(str, list(failed)[:_NUMBERS])) + (", ..." if len(failed) > _NUMBERS else "")
    lines = f"1 of {count} lines has no reply: line" if len(failed) == 1 else ""
    lines = lines or f"{len(failed)} of {count} lines have no reply: lines"
    return next(iter(failed.values())).reworded(f"{lines} {numbers}")


def _show_json(outcome: _Outcome, several: Conversations) -> None:
    reply = outcome.reply
    facts: dict[str, object] = {"line": outcome.line.number, "prompt": outcome.line.text}
    if reply is not None:
        facts |= {"text": reply.text, "tokens": reply.tokens, "finish_reason": reply.finish_reason}
        batch = several.together().as_json()
        facts["stats"] = {**reply.stats.as_json(), "sampling": asdict(reply.params), "batch": batch}
    if outcome.error is not None:
        facts["error"] = str(outcome.error)
    screen.show_json(facts)


def _show(outcome: _Outcome, *, first: bool) -> None:
    number, question = outcome.line.number, screen.printable(outcome.line.text)
    question = question if len(question) <= _SHOWN else question[: _SHOWN - 3] + "..."
    click.echo(f"{'' if first else chr(10)}--- {number}: {question}")
    if outcome.reply is not None:
        screen.show(outcome.reply.text)
        click.echo()
    if outcome.error is not None:
        hint = hint_of(outcome.error)
        message = outcome.error.message
        where = "" if message.startswith(f"line {number} ") else f"line {number}: "
        notice(where + message + (f" ({hint})" if hint else ""))
