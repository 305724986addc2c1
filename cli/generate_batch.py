"""``edgedec generate --input``: every line of a file is a prompt; a batch of them shares each pass."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgedec.cli import screen
from edgedec.cli.interrupts import interrupts_to
from edgedec.cli.opening import open_model, say_overrun
from edgedec.cli.progress import notice
from edgedec.cli.text_input import check_lines, prompt_lines
from edgedec.core.errors import EdgeDecError

if TYPE_CHECKING:
    from edgedec.runtime.config import RunConfig
    from edgedec.session.conversations import Answer, Conversations

_SHOWN = 60
"""Characters of a prompt above its reply."""


def run(ctx: click.Context, model: str, source: Path, config: RunConfig, options: dict[str, Any]) -> None:
    """Answer every line that is not empty. Raises the first error of a line once all are answered."""
    from edgedec.cli.generate import without_template

    check_lines(source)
    opened = open_model(ctx, model, config)
    raw, system = without_template(opened, options)
    several = opened.conversations(system=system, max_tokens=options["max_tokens"], stop=options["stops"])
    prompts = several.chats[0].prompts
    with several, prompt_lines(source, prompts) as texts, interrupts_to(several):
        failed, interrupted = _answer(several, texts, raw, options["as_json"])
    say_overrun(opened)
    if interrupted:
        raise KeyboardInterrupt
    if failed:
        raise failed


def _answer(
    several: Conversations, texts: list[str], raw: bool, as_json: bool
) -> tuple[EdgeDecError | None, bool]:
    """Show all answers. Returns the first error of one, and whether they were interrupted."""
    failed: EdgeDecError | None = None
    shown = 0
    for answer in several.answers(texts, raw=raw):
        if answer.error is not None and not isinstance(answer.error, EdgeDecError):
            raise answer.error
        failed = failed or answer.error
        show = _show_json if as_json else _show
        show(answer, texts[answer.number])
        reason = answer.reply.finish_reason if answer.reply else None
        shown += reason != "interrupted"
    return failed, shown < len(texts)


def _show_json(answer: Answer, prompt: str) -> None:
    reply = answer.reply
    facts: dict[str, object] = {"line": answer.number + 1, "prompt": prompt}
    if reply is None:
        screen.show_json({**facts, "error": str(answer.error)})
        return
    facts |= {"text": reply.text, "tokens": reply.tokens, "finish_reason": reply.finish_reason}
    screen.show_json({**facts, "stats": reply.stats.as_json()})


def _show(answer: Answer, prompt: str) -> None:
    said = screen.printable(prompt)
    said = said if len(said) <= _SHOWN else said[: _SHOWN - 3] + "..."
    click.echo(f"{'' if answer.number == 0 else chr(10)}--- {answer.number + 1}: {said}")
    if answer.reply is None:
        notice(f"line {answer.number + 1}: {answer.error}")
    else:
        screen.show(answer.reply.text)
        click.echo()
