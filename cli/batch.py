"""``edgedec batch``: many prompts, or one prompt many times, several of them in each pass."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from edgedec.cli import options as opt
from edgedec.cli.choice import Choice, read_choice
from edgedec.cli.command import TEXT, new_command, option, taking
from edgedec.cli.form import FormOptions
from edgedec.cli.opening import run_config
from edgedec.cli.positional import PROMPT, one_prompt
from edgedec.cli.progress import notice
from edgedec.cli.sampling_options import SamplingOptions
from edgedec.core.errors import UsageError

_BATCH = 4
_HELP = """Answer every line of a file, or one prompt several times, with several replies in each pass.

\f
With --input each line is answered by itself. Replies come in the order of the lines; with --json one object
a line, whose stats.batch has the tokens and the energy of all replies so far. Replies do not depend on
--batch. A line that cannot be answered has the error in place of its reply, and the others are answered; the
exit status tells the first error.

With --samples one prompt is answered several times: each reply is that of its seed alone. Without
PROMPT it is read from standard input. All replies are printed, or the one that --choose names. A vote ends
as soon as no other sample can change it. With --json one object has all that began in a field samples, and
the place of the chosen one there in chosen.
"""


@new_command(
    "batch",
    "edgedec batch --input questions.txt --batch 8 --json > replies.jsonl",
    'edgedec batch "What is 12 * 12?" --temperature 0.8 --samples 8 --choose vote',
    help=_HELP,
)
@opt.model_option
@click.argument("words", nargs=-1, type=TEXT, metavar=PROMPT)
@option(
    "--input", "source", type=click.Path(path_type=Path, allow_dash=True), metavar="FILE",
    heading=opt.REPLY, help="Answer every line of a file as a prompt of its own; - reads standard input.",
)  # fmt: skip
@option(
    "--samples", type=click.IntRange(min=1), metavar="N", heading=opt.REPLY,
    help="Make N replies to one prompt, with seeds that count up from --seed, over one computed prompt.",
)  # fmt: skip
@option(
    "--choose", callback=read_choice, metavar="HOW", heading=opt.REPLY, rare=True,
    help="Of --samples show one: best (mean log-probability), first (to end), vote (most frequent last "
    "number) or vote=REGEX.",
)  # fmt: skip
@option(
    "--batch", type=click.IntRange(min=1), default=_BATCH, show_default=True, metavar="N",
    heading=opt.COST, rare=True, help="Make N replies together, in one pass over the weights.",
)  # fmt: skip
@taking(reply=opt.BatchReplyOptions, sampling=SamplingOptions, size=opt.BatchSizeOptions, form=FormOptions)
@opt.json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    model: str,
    words: tuple[str, ...],
    source: Path | None,
    samples: int | None,
    choose: Choice | None,
    batch: int,
    reply: opt.BatchReplyOptions,
    sampling: SamplingOptions,
    size: opt.BatchSizeOptions,
    form: FormOptions,
    as_json: bool,
) -> None:
    asked = one_prompt(words, None)
    _check(source, asked, samples, choose)
    config, spec = run_config(size, sampling.named()), form.spec()
    for one in spec.left_out if spec else ():
        notice(f"note: replies do not keep to {one}")
    config = replace(
        config,
        thinking=reply.thinking,
        structured=spec is not None,
        conversations=min(batch, samples or batch),
    )
    if samples is None:
        assert source is not None
        from edgedec.cli import batch_lines  # a memory plan counts what is imported

        batch_lines.run(ctx, batch_lines.LineJob(source, model, config, spec), reply, as_json=as_json)
    else:
        from edgedec.cli import batch_samples

        job = batch_samples.PromptJob(asked, model, config, samples, choose, spec)
        batch_samples.run(ctx, job, reply, as_json=as_json)


def _check(source: Path | None, prompt: str | None, samples: int | None, choose: Choice | None) -> None:
    """Raise UsageError for options that go together with no answer."""
    if source is not None and samples is not None:
        raise UsageError("--samples is for one prompt, --input for many", hint="leave one out")
    if source is not None and prompt is not None:
        raise UsageError("--input goes without a prompt", hint="leave one out")
    if samples is None and choose is not None:
        raise UsageError("--choose is for --samples", hint="say how many samples to choose from")
    if source is None and samples is None:
        raise UsageError(
            "a batch is of --input or of --samples",
            hint="give a file with a prompt on every line, or say how often to answer one; "
            "`edgedec generate` answers it once",
        )
