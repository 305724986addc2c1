"""``edgedec switch calibrate``: thresholds for a share of the large model, or for a quality."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgedec.cli import options as opt
from edgedec.cli import screen
from edgedec.cli.opening import open_model, run_config
from edgedec.cli.progress import notice
from edgedec.cli.rare import Command
from edgedec.cli.services import services
from edgedec.control.switching import SwitchRule
from edgedec.core.errors import UsageError

if TYPE_CHECKING:
    from edgedec.api import Model
    from edgedec.switch.traces import CalibrationPoint, Trace

_SHARE = 0.3
_REPLY_TOKENS = 128


@click.command(
    "calibrate",
    cls=Command,
    short_help="Find the thresholds of a pair of models.",
    epilog=opt.examples(
        "edgedec switch calibrate -m qwen2.5-coder-1.5b --switch smollm2-135m",
        "edgedec switch calibrate -m qwen2.5-coder-1.5b --switch smollm2-135m --share 0.5",
        "edgedec switch calibrate -m large --switch small --quality 0.9 --plot quality.svg",
    ),
)
@opt.model_option
@click.option(
    "--switch", required=True, metavar="SMALL", help="The small model: name, path, exit-N or skip-A-B."
)
@click.option(
    "--prompts", type=click.Path(path_type=Path), metavar="FILE",
    help="Prompts like those to come: one a line, or .jsonl (default: a few built-in questions).",
)  # fmt: skip
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Take the first N prompts.")
@click.option(
    "--share", type=click.FloatRange(0, 1), metavar="S",
    help=f"Share of tokens for the large model to write (default: {_SHARE}).",
)  # fmt: skip
@click.option(
    "--quality", type=click.FloatRange(0, 1), metavar="Q",
    help="Share of tokens to be as the large model's greedy ones, with as little of it as that takes.",
)  # fmt: skip
@click.option(
    "--max-tokens", type=click.IntRange(min=16), metavar="N", default=_REPLY_TOKENS, show_default=True,
    help="Longest reply, in tokens.",
)  # fmt: skip
@opt.threads_option
@opt.memory_option
@opt.plot_option
@opt.json_option
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> None:
    """Find the thresholds at which two models take turns, and keep them for chat and generate.

    The large model answers the prompts greedily, and the small one reads the answers. From the entropies of
    both follows who would write what at any thresholds. The quality is the share of tokens that the large
    model writes, or that are the small one's first choice too. It is an estimate: in a reply of its own the
    small model reads what it wrote itself.
    """
    from edgedec.bench.harness.texts import QUESTIONS, read_prompts
    from edgedec.bench.plots.figure import check_plot
    from edgedec.switch.thresholds import keep_rule
    from edgedec.switch.traces import of_agreement, of_share, sweep

    if options["share"] is not None and options["quality"] is not None:
        raise UsageError("--share and --quality are two goals", hint="leave one out")
    if options["plot"]:
        check_plot(options["plot"])
    texts = read_prompts(options["prompts"]) if options["prompts"] else list(QUESTIONS)
    config = run_config({**options, "switch_at": (-1.0, -1.0)})
    model = open_model(ctx, options["model"], config)
    traces = _traces(model, options["switch"], texts[: options["limit"]], options["max_tokens"])
    points = sweep(traces, SwitchRule(0.0, 0.0).window, SwitchRule(0.0, 0.0).least_run)
    if options["quality"] is None:
        chosen = of_share(points, _SHARE if options["share"] is None else options["share"])
    else:
        chosen = of_agreement(points, options["quality"])
    single = model.single
    name = options["switch"]
    small = single.models.drafts[name] if model.config.switch_model else name
    path = keep_rule(services(ctx).store().home, single.model, small, chosen.rule)
    called = name if isinstance(small, str) else small.name
    if options["plot"]:
        from edgedec.bench.plots.switching import draw_calibration

        draw_calibration(points, chosen, options["plot"], title=f"{model.name} with {called}")
    report = {
        "large": model.name,
        "small": called,
        "prompts": len(traces),
        "tokens": sum(len(trace.agreed) for trace in traces),
        "chosen": chosen.as_json(),
        "points": [point.as_json() for point in points],
        "file": str(path),
    }
    if options["as_json"]:
        screen.show_json(report)
    else:
        _show(points, chosen, report)


def _traces(model: Model, name: str, texts: list[str], max_tokens: int) -> list[Trace]:
    from edgedec.cli.draft.token_bar import token_bar
    from edgedec.core.errors import ContextFullError
    from edgedec.session.prompt import Message
    from edgedec.switch.engine import SwitchedEngine
    from edgedec.switch.traces import Reader, traced_reply
    from edgedec.switch.writers import ForeignWriter, HomeWriter

    engine, single = model.engine, model.single
    assert isinstance(engine, SwitchedEngine)
    assert isinstance(engine.large, HomeWriter)
    assert isinstance(engine.small, HomeWriter | ForeignWriter)
    large = Reader(engine.large, single.model.tokenizer.token_bytes)
    beside = single.models.drafts[name] if model.config.switch_model else single.model
    small = Reader(engine.small, beside.tokenizer.token_bytes)
    chat = model.chat()
    found = []
    made = 0
    with token_bar(len(texts), None) as show:
        for number, text in enumerate(texts, 1):
            templated = model.loaded.template is not None
            turns = [*chat.messages, Message("user", text)]
            try:
                ids = chat.prompts.build(turns).ids if templated else chat.prompts.of_text(text)
                engine.small.rendered([(one.role, one.content) for one in turns] if templated else (), ids)
                found.append(traced_reply(large, small, ids, max_tokens))
                made += len(found[-1].agreed)
            except ContextFullError as error:
                notice(f"note: a prompt is left out: {error.message}")
            show(number, made)
    if not any(trace.agreed for trace in found):
        raise UsageError("no prompt was answered", hint="give prompts that fit the context")
    return found


def _show(points: list[CalibrationPoint], chosen: CalibrationPoint, report: dict[str, Any]) -> None:
    click.echo("  LOW,HIGH bits   large model   as the large model's")
    for point in points:
        at = f"{point.rule.low_bits:g},{point.rule.high_bits:g}"
        mark = "*" if point == chosen else " "
        click.echo(f"{mark} {at:<15} {point.share:>11.0%}   {point.agreement:>20.1%}")
    click.echo(f"kept for {report['large']} with --switch {report['small']}")
    click.echo(f"the same as --switch-at={chosen.rule.low_bits:g},{chosen.rule.high_bits:g}")
