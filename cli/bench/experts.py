"""``edgedec bench experts``: hits of experts in memory, by the policy that lets them go."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgedec.cli import options as opt
from edgedec.cli import screen
from edgedec.cli.bench import inputs
from edgedec.cli.bench.options import input_option
from edgedec.cli.command import new_command
from edgedec.core.errors import UnsupportedError

if TYPE_CHECKING:
    from edgedec.bench.studies.experts import ReplayedRouting


@new_command(
    "experts",
    "edgedec bench experts -m lfm2-8b-a1b",
    "edgedec bench experts -m qwen3-30b-a3b --input questions.txt --json",
)
@opt.model_option
@input_option("One question per line; .jsonl: a string or an object with prompt, question, text or turns.")
@opt.json_option
@click.pass_context
def command(ctx: click.Context, model: str, file: Path | None, as_json: bool) -> None:
    """Record which experts the passes of a model ask for, and replay that with several policies.

    A policy decides which experts leave when others need their room. For several numbers of slots the table
    has the share of requests that find their expert in memory, and beside it that share divided by the share
    of Belady's optimum, which knows what will be asked. No policy can have more.

    Routings that are drawn come after the recorded one: experts that are all as likely, and reuse as others
    measured it of three models: so many of the last token's experts are taken again.

    The model answers the questions with its experts on the disk, however much memory there is.
    """
    from edgedec.backends.onnx.model import OnnxModel
    from edgedec.bench.harness.pairing import plain
    from edgedec.bench.harness.texts import QUESTIONS, read_prompts
    from edgedec.bench.studies.experts import DRAWN, drawn, recorded, replay
    from edgedec.bundle.device_place import DevicePlace

    texts = read_prompts(file) if file else QUESTIONS
    bundle, manifest = inputs.find_model(ctx, model)
    if manifest.spec.experts is None or manifest.kind != "edgedec":
        raise UnsupportedError(
            f"{manifest.name} reads no experts from the disk",
            hint="name a model with experts that runs in EdgeDec's kernels, such as lfm2-8b-a1b",
        )
    prompts = inputs.prompt_ids(bundle, manifest, texts, None)
    with inputs.steps() as progress:
        opened = OnnxModel(bundle, manifest, place=DevicePlace(memory=1))
        routings = {"recorded": recorded(opened, prompts, progress)}
        routings |= {name: drawn(sizes, seed=1) for name, sizes in DRAWN.items()}
        found = [replay(name, routing, progress) for name, routing in routings.items()]
    if as_json:
        facts = {"model": manifest.name, "questions": len(texts)}
        screen.show_json({**facts, "routings": plain(found)})
    else:
        _show(manifest.name, found)


def _show(name: str, found: Sequence[ReplayedRouting]) -> None:
    from edgedec.bench.studies.experts import BEST
    from edgedec.cli.bench.tables import new_table, wide_console

    console = wide_console()
    for one in found:
        console.print(
            f"{name if one is found[0] else 'drawn'}, {one.routing}: {one.again:.0%} of the last token's "
            f"experts come again; hits of {one.asked} requests (and of Belady's)"
        )
        table = new_table(("", *(f"{slots} of {one.experts}" for slots in one.slots)))
        for policy, rates in one.hits.items():
            pairs = zip(rates, one.hits[BEST], strict=True)
            cells = (f"{rate:.1%} ({rate / best if best else 1.0:.2f})" for rate, best in pairs)
            table.add_row(policy, *cells)
        console.print(table)
        console.print()
