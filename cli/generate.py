"""``edgedec generate``: one prompt, one answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgedec.cli import generate_lines, screen, text_input, verification
from edgedec.cli import options as opt
from edgedec.cli import trace as tracing
from edgedec.cli.interrupts import interrupts_to
from edgedec.cli.opening import Opened, open_for_replies
from edgedec.cli.progress import notice
from edgedec.cli.rare import Command
from edgedec.core.errors import UsageError
from edgedec.core.when_full import LOSSY, STOP
from edgedec.telemetry import process

if TYPE_CHECKING:
    from edgedec.eviction.policy import Policy
    from edgedec.session.chat import Session
    from edgedec.session.reply import Reply


@click.command(
    "generate",
    cls=Command,
    short_help="Answer one prompt, or continue a text.",
    epilog=opt.examples(
        'edgedec generate -p "Why is the sky blue?"',
        "git diff | edgedec generate -m qwen2.5-coder-1.5b -p - --max-tokens 100",
        'edgedec generate -m gemma3-270m --raw -p "Once upon a time" --temperature 0.8 --seed 7',
        'edgedec generate -p "List three colours." --json | jq .stats',
        "edgedec generate -m qwen2.5-coder-1.5b --draft lookup -p - < question-about-a-file.txt",
        'edgedec generate --trace -p "List the even numbers from 2 to 40."',
        "edgedec generate --lines questions.txt --at-once 8 --json > replies.jsonl",
    ),
)
@opt.model_option
@click.option("-p", "--prompt", metavar="TEXT", help="The prompt; - reads it from standard input.")
@click.option("--raw", is_flag=True, help="Continue the prompt as it stands, without the chat template.")
@click.option(
    "--lines", type=click.Path(path_type=Path, allow_dash=True), metavar="FILE",
    help="Answer every line of a file as a prompt of its own; - reads standard input.",
)  # fmt: skip
@click.option(
    "--at-once", type=click.IntRange(min=1), metavar="N",
    help="With --lines: so many conversations at once over the one model (default: 4).",
)  # fmt: skip
@opt.reply_options
@click.option(
    "--when-full", type=click.Choice([STOP, *LOSSY]), default=STOP, show_default=True, metavar="WHAT",
    help="When the context is full: stop; or, lossy, slide: the oldest tokens leave the cache; or speckv: "
    "those that a draft of what follows attends to least.",
)  # fmt: skip
@click.option("--trace", is_flag=True, help="Show which tokens were drafted, and by whom (see --draft).")
@opt.json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    model: str,
    prompt: str | None,
    raw: bool,
    lines: Path | None,
    at_once: int | None,
    when_full: str,
    trace: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Answer one prompt and stop.

    The prompt is one user turn through the model's chat template; with --raw, or for a model without a
    template, it is text to be continued. The answer is streamed to standard output.

    With --json nothing is streamed: one object follows, with text, tokens (ids, the end token included),
    finish_reason (stop, length or context) and stats. There, time_to_first_token_s counts from the start
    of the process, and load_s is the part of it that opening the model took.

    With --when-full slide a full context ends no reply, and prompts may be longer than it: the oldest tokens
    leave the cache, a quarter of it at a time, but for the first ones (attention sinks and a window). What
    follows is not what the model would have said: stats say so, lossy and evicted_tokens. With speckv every
    head of the model keeps what the newest tokens and a draft of what follows attend to, in place of what is
    newest.

    With --trace a terminal shows each token in the colour of its drafter; without colours the reply follows
    once more on standard error, with | between rounds and drafted tokens in brackets. With --json there is
    a field trace: token, text, source (null: the target itself), depth in the draft, round.

    With --lines every line is answered by itself, several at once: a pass over the weights serves them all.
    Replies come in the order of the lines, each as soon as it and those before it are done; with --json one
    object a line. What they say does not depend on --at-once.
    """
    from edgedec.sampling import drawing_bytes
    from edgedec.session.chat import Session
    from edgedec.session.reply import Settings

    settings = Settings(opt.take_params(options), options["max_tokens"], options["stops"])
    drafting = opt.take_drafting(options)
    system = options["system"]
    if lines is None and at_once is not None:
        raise UsageError("--at-once is for --lines", hint="give a file with a prompt on every line")
    if raw and system:
        raise UsageError("--system has no place in a raw prompt", hint="leave out --raw or --system")
    if lines is not None:
        if prompt is not None or trace or when_full != STOP:
            raise UsageError("--lines goes without --prompt, --trace and --when-full", hint="leave those out")
        generate_lines.run(
            ctx, model, lines, at_once or 4, generate_lines.Wanted(settings, drafting, raw, as_json), options
        )
        return
    text_input.check_prompt(prompt)
    opened = open_for_replies(
        ctx, model, drafting, options, drawing=drawing_bytes(settings.params), when_full=when_full
    )
    loaded, speculation = opened.model, opened.speculation
    if loaded.template is None and not raw:
        notice(f"note: {loaded.manifest.name} is a base model without a chat template; it continues text")
        raw, system = True, None
    session = Session(
        loaded.forward, loaded.tokenizer, loaded.template, settings, system=system, speculation=speculation,
        when_full=when_full,
    )  # fmt: skip
    text = text_input.read_prompt(prompt, session.prompts)
    begun_s = process.age_s()
    palette = tracing.Palette() if trace and tracing.coloured() else None
    pieces = session.complete(text) if raw else session.reply(text)
    _stream(session, pieces, silent=as_json, palette=palette)
    reply = session.last
    assert reply is not None
    if as_json:
        verification.wait(ctx)
        report = _report(reply, session.policy, opened, begun_s + reply.stats.prefill_s)
        screen.show_json({**report, **({"trace": [one.as_json() for one in reply.trace()]} if trace else {})})
    elif trace:
        tracing.conclude(reply.trace(), palette)
    opened.say_overrun()
    if session.policy and (news := session.policy.news()):
        notice(news)
    if reply.finish_reason == "interrupted":
        raise KeyboardInterrupt


def _stream(
    session: Session, pieces: Iterator[str], *, silent: bool, palette: tracing.Palette | None
) -> None:
    ends_line = True
    with interrupts_to(session):
        for piece in pieces:
            if not silent:
                tracing.show(piece, session.last, palette)
                ends_line = piece.endswith("\n")
    if not ends_line:
        click.echo()


def _report(reply: Reply, policy: Policy | None, opened: Opened, first_token_s: float) -> dict[str, object]:
    loaded, speculation = opened.model, opened.speculation
    evicted = policy.tokens if policy else 0
    stats: dict[str, object] = {
        **reply.stats.as_json(),
        "draft": list(speculation.drafters) if speculation else [],
        **(speculation.tally.as_json() if speculation else {}),
        "draft_bytes": speculation.nbytes() if speculation else {},
        "load_s": round(loaded.load_s, 6),
        "time_to_first_token_s": round(first_token_s, 3),
        "peak_rss_bytes": process.peak_rss_bytes(),
        "context": loaded.forward.capacity,
        "kv": loaded.kv,
        "lossy": policy.lossy if policy and evicted else None,
        "evicted_tokens": evicted,
        **({"memory": opened.budget.as_json()} if opened.budget else {}),
        "kv_cache_bytes": loaded.forward.nbytes()["kv_cache"],
        "threads": loaded.threads,
        "isa": loaded.isa,
    }
    return {
        "model": loaded.manifest.name,
        "text": reply.text,
        "tokens": reply.tokens,
        "finish_reason": reply.finish_reason,
        "stats": stats,
    }
