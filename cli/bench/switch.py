"""``edgedec bench switch``: right answers and cost of two models that take turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from edgedec.cli import options as opt
from edgedec.cli import screen
from edgedec.cli.bench import inputs
from edgedec.cli.bench.options import StudyOptions, count_option, input_option, last_options, save_option
from edgedec.cli.command import Command
from edgedec.cli.opening import open_model
from edgedec.control.switching import SwitchRule
from edgedec.core.errors import EdgeDecError, UsageError

if TYPE_CHECKING:
    from edgedec.api import Model
    from edgedec.assemble.config import RunConfig
    from edgedec.bench.studies.switch_problems import SwitchProblem
    from edgedec.bench.studies.switching import SideResult
    from edgedec.metrics.measures import Energy
    from edgedec.session.reply import Reply

_AT = ((0.1, 0.2), (0.2, 0.4), (0.4, 0.8), (0.7, 1.4), (1.2, 2.4))


def _rules(ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> list[SwitchRule]:
    return [SwitchRule(*pair) for pair in map(_thresholds, texts)] or [SwitchRule(*pair) for pair in _AT]


def _thresholds(text: str) -> tuple[float, float]:
    try:
        low, high = map(float, text.split(","))
    except ValueError as error:
        raise UsageError(
            f"{text[:40]!r} is not two thresholds", hint="give two numbers of bits, such as 0.4,0.8"
        ) from error
    return low, high


@click.command(
    "switch",
    cls=Command,
    short_help="Right answers and cost of two models that take turns.",
    epilog=opt.examples(
        "edgedec bench switch -m qwen2.5-coder-1.5b --switch smollm2-135m --save code.jsonl",
        "edgedec bench switch -m qwen2.5-coder-1.5b --switch smollm2-135m --input gsm8k.jsonl",
        "edgedec bench switch -m large --switch small --at 0.4,0.8 --save code.jsonl",
    ),
)
@opt.model_option
@click.option("--switch", required=True, metavar="SMALL", help="The small model, by name or path.")
@input_option("Questions in the format of GSM8K (default: 20 programming problems, run in a sandbox).")
@click.option(
    "--at", "rules", multiple=True, callback=_rules, metavar="LOW,HIGH",
    help="Mean entropy of the last five tokens, in bits: the small model hands over above HIGH, the large "
    "one hands back below LOW. May be given several times (default: five pairs).",
)  # fmt: skip
@count_option("--max-tokens", "Longest reply, in tokens.", 256)
@save_option
@opt.plot_option
@last_options
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> None:
    """Ask problems of both models alone, of both in turn, and of random switching of the same share.

    Replies are greedy. Beside the share of right answers stands its 95 % interval. Times, processor times and
    joules are those of whole replies, the prompt included; joules are measured where the machine has a meter,
    and else an estimate, marked as one. Ctrl-C ends it with the problems that all sides answered; with --save
    the same command goes on where it was.
    """
    from edgedec.bench.plots.figure import check_plot

    if options["plot"]:
        check_plot(options["plot"])
    problems = _problems(options)
    model = open_model(ctx, options["model"], _config(options))
    conditions = _conditions(options, model)
    results, stopped = _asked(model, problems, conditions, options)
    if not results:
        if stopped:
            raise KeyboardInterrupt
        raise EdgeDecError(
            "no problem was asked of every side",
            hint="give it more time; with a file it goes on where it was",
        )
    if options["plot"]:
        from edgedec.bench.plots.switching import draw_sides

        draw_sides(results, options["plot"], title=f"{model.name} with {conditions['small']}")
    if options["as_json"]:
        tasks = {task: [one.as_json() for one in sides] for task, sides in results.items()}
        screen.show_json({"conditions": conditions, "tasks": tasks})
    else:
        _show(results, {task: sum(one.task == task for one in problems) for task in results})
    if stopped:
        raise KeyboardInterrupt


def _config(options: dict[str, Any]) -> RunConfig:
    from edgedec.assemble.config import RunConfig
    from edgedec.sampling.named import SamplingParams

    names = ("threads", "switch")
    return RunConfig(**{name: options[name] for name in names}, sampling=SamplingParams.greedy())


def _asked(
    model: Model,
    problems: list[SwitchProblem],
    conditions: dict[str, object],
    options: dict[str, Any],
) -> tuple[dict[str, list[SideResult]], bool]:
    """Return the results by task, and whether Ctrl-C ended the study."""
    from edgedec.bench.harness.journal import Journal
    from edgedec.bench.studies.switching import SwitchStudy, read_outcome
    from edgedec.switch.engine import SwitchedEngine

    engine = model.engine

    def energy(reply: Reply) -> Energy | None:
        return model.single.measures.energy(reply.marks, reply.stats) if reply.marks else None

    assert isinstance(engine, SwitchedEngine)
    journal = Journal.resume(conditions, options["save"], read_outcome)
    chat, rules = model.chat(max_tokens=options["max_tokens"]), options["rules"]
    study = SwitchStudy(chat, engine, problems, journal, energy)
    stopped = False
    try:
        with inputs.steps() as progress:
            study.run(rules, progress)
    except KeyboardInterrupt:
        stopped = True
    return study.results(rules), stopped


def _conditions(options: dict[str, Any], model: Model) -> dict[str, object]:
    """Return all that a reply and its cost depend on. The choice of problems and sides is not part of it."""
    from edgedec.bundle.manifest import WEIGHTS

    shared = StudyOptions(model=options["model"], threads=options["threads"], as_json=options["as_json"])
    small = model.single.prepared.small
    assert small is not None
    return {
        **inputs.conditions(shared, model.loaded.manifest, None),
        "small": small.name,
        "small_weights": small.manifest.files[WEIGHTS].sha256[:16],
        "max_tokens": options["max_tokens"],
    }


def _problems(options: dict[str, Any]) -> list[SwitchProblem]:
    from edgedec.bench.studies.switch_problems import code_problems, math_problems

    return math_problems(options["file"]) if options["file"] else code_problems()


def _show(results: dict[str, list[SideResult]], wanted: dict[str, int]) -> None:
    from edgedec.bench.studies.switching import LARGE
    from edgedec.cli.bench.tables import new_table, number, percent, wide_console

    console = wide_console()
    for task, sides in results.items():
        large = next(one for one in sides if one.side == LARGE)
        console.print(f"{task}: {large.asked} of {wanted[task]} problems; per reply, its prompt included")
        headings = ("", "right", "95 % interval", "large model", "switches", "s", "CPU s", "of large", "J")
        table = new_table((*headings, "of large"))
        for one in sides:
            low, high = one.interval
            bounds = (
                f" ({one.low:.2f}-{one.high:.2f})" if one.low is not None and one.high is not None else ""
            )
            table.add_row(
                one.side, f"{one.right}/{one.asked}", f"{low:.0%} to {high:.0%}", percent(one.share),
                f"{one.switches:.1f}", f"{one.seconds:.1f}", f"{one.cpu_s:.1f}",
                number(one.cpu_s / large.cpu_s if large.cpu_s else None, 2), number(one.joules, 2) + bounds,
                number(one.joules / large.joules if one.joules and large.joules else None, 2),
            )  # fmt: skip
        console.print(table)
        if large.source:
            kind = "an estimate with its bounds, not a measurement" if large.estimated else "measured"
            console.print(f"J: {kind}; {large.source}\n", soft_wrap=True)
