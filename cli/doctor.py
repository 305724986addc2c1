"""``edgedec doctor``: facts about the machine, the kernels that run, and the speed of installed models."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from edgedec.cli import options as opt
from edgedec.cli import progress, screen
from edgedec.cli.command import new_command
from edgedec.cli.services import services
from edgedec.core.units import size
from edgedec.disk.installing import pip_install

if TYPE_CHECKING:
    from edgedec.cli.doctor_report import Findings

PROBLEMS_FOUND = 1
_NO_LLAMA_CPP = "not installed; it runs other GGUF architectures"
_NO_WGPU = "not asked; `--device gpu` needs a package"
_NO_OPTIMUM = "not installed; it exports other architectures"


@new_command(
    "doctor",
    "edgedec doctor",
    "edgedec doctor --fast",
    "edgedec doctor --verify",
    "EDGEDEC_ISA=scalar edgedec doctor",
)
@click.option(
    "--fast",
    is_flag=True,
    help="Measure neither the bandwidth nor the models' speeds; ask no GPU.",
)
@click.option("--verify", is_flag=True, help="Read every file of every installed model and check its hash.")
@opt.json_option
@click.pass_context
def command(ctx: click.Context, fast: bool, verify: bool, as_json: bool) -> None:
    """Examine this machine: its processor and memory, the kernels that run, the memory bandwidth.

    Each installed model runs some passes, so its speed is that of plain decoding at a short context, as quick
    as the machine is now; other programs that compute slow it down. Drafts raise it, at most to the speed
    with all of them right, which is known once a reply has drafted. The exit status is 1 when something does
    not work.

    GPUs are listed with whether their results have the CPU's bits; a software adapter is asked only where
    EDGEDEC_GPU names it.

    The bandwidth is kept: /stats and `generate --json` compare each reply with it. The energy of a reply is
    measured where a line names a meter, and estimated otherwise.

    Every command that opens a model checks the hashes of files that changed since the last start. With
    --verify all files of all installed models are checked, changed or not.

    The last lines are the files kept beside the models, by kind: `edgedec clean` removes them. A saved
    conversation is shown if it lies in the same folder; no list of others is kept.
    """
    from edgedec.cli.doctor_report import examine, measure_models, verify_models

    found = examine(services(ctx), measure=not fast)
    if not fast:
        with progress.reporter() as report:
            measure_models(found, services(ctx), report)
    if verify:
        with progress.reporter() as report:
            verify_models(found, services(ctx).store(), report)
    if as_json:
        screen.show_json({**found.sections, "problems": found.problems})
    else:
        _print(found)
    if found.problems:
        ctx.exit(PROBLEMS_FOUND)


def _print(found: Findings) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for label, text in _rows(found.sections):
        table.add_row(label, text)
    for problem in found.problems:
        table.add_row(Text("problem", style="red"), problem)
    Console(highlight=False, markup=False).print(table)


def _rows(sections: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield from _machine_rows(sections["machine"])
    if kernels := sections["kernels"]:
        yield "kernels", ", ".join(_kernel_row(row) for row in kernels["rows"])
        yield "running", kernels["isa"] + (" (forced by EDGEDEC_ISA)" if kernels["forced"] else "")
    if runtime := sections["onnxruntime"]:
        yield "ONNX Runtime", runtime["version"]
    if gpus := sections["gpus"]:
        yield from _gpu_rows(gpus)
    yield "EdgeDec", sections["versions"]["edgedec"]
    yield "optimum", sections["versions"]["optimum-onnx"] or f"{_NO_OPTIMUM}: {pip_install('optimum')}"
    yield "llama.cpp", sections["versions"]["llama-cpp-python"] or f"{_NO_LLAMA_CPP}: {pip_install('gguf')}"
    for one in sections["bandwidth"] or ():
        plural = "s" if one["threads"] > 1 else ""
        yield "bandwidth", f"{one['gb_per_s']:.1f} GB/s with {one['threads']} thread{plural}"
    if energy := sections["energy"]:
        yield "energy", energy["source"] or "no meter, so it is estimated: " + "; ".join(energy["refused"])
    if store := sections["store"]:
        yield "store", store["home"] + (" (EDGEDEC_HOME)" if store["from_environment"] else "")
        yield "disk", f"{size(store['disk_free_bytes'])} free"
        yield from _model_rows(store["models"])
    if kept := sections["kept"]:
        yield from _kept_rows(kept)


def _machine_rows(machine: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "machine", f"{machine['cpu']} ({machine['architecture']}, {machine['system']})"
    yield "cores", f"{machine['cores']} usable of {machine['logical_cpus']}"
    if (load := machine["load_average"]) is not None:
        busy = "; other programs slow passes down" if load > machine["cores"] / 2 else ""
        yield "load", f"{load:.1f} in the last minute{busy}"
    if machine["memory_bytes"]:
        available = machine["memory_available_bytes"]
        free = f", {size(available)} available" if available else ""
        counted = f"; a process is counted by {machine['memory_counted_by']}"
        yield "memory", size(machine["memory_bytes"]) + free + counted
    if machine["features"]:
        yield "features", " ".join(machine["features"])


def _gpu_rows(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if not found["installed"]:
        yield "GPU", f"{_NO_WGPU}: {pip_install('gpu')}"
    elif not found["adapters"]:
        yield "GPU", "none found"
    for one in found["adapters"]:
        kind = "software adapter" if one["kind"] == "software" else one["kind"]
        about = one.get("arithmetic") or one.get("problem")
        yield "GPU", f"{one['name']} ({one['api']}, {kind})" + (f": {about}" if about else "")


def _kernel_row(row: dict[str, Any]) -> str:
    note = " (runs)" if row["will_run"] else "" if row["can_run"] else " (not on this CPU)"
    return f"{row['row']}{note}"


def _kept_rows(kept: dict[str, Any]) -> Iterator[tuple[str, str]]:
    from edgedec.cli.clean import rows

    for label, text in rows(kept["kinds"]):
        yield "kept", f"{label}, {text}"
    if not any(kind["text"] for kind in kept["kinds"]):
        yield "kept", "no text of prompts and replies"
    for other in kept["others"]:
        about = "a saved conversation" if other["session"] else "not a file of EdgeDec's"
        yield "kept", f"{other['path']}, {size(other['bytes'])}: {about}"


def _model_rows(models: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    from edgedec.cli.speed_words import spoken
    from edgedec.costs.speeds import PredictedSpeeds

    if not models:
        yield "models", "none installed; `edgedec chat` fetches the default one"
    for model in models:
        found = ", intact" if model.get("intact") else ""
        if "speed" in model and model["speed"] is None:
            found += ", larger than the free memory"
        elif speed := model.get("speed"):
            found += ", " + spoken(PredictedSpeeds(speed["plain_tokens_per_s"], speed["most_tokens_per_s"]))
        yield "model", f"{model['name']}, {size(model['bytes'])}{found}"
