"""Costs of passes over one token and several."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgedec.bench.harness.runtimes import EDGEDEC
from edgedec.bench.report.subject import Subject
from edgedec.bench.report.views import Chart, Figure, TableView, View, number, percent
from edgedec.core.progress import Progress
from edgedec.core.units import size
from edgedec.telemetry import bandwidth

_COUNTS = (1, 2, 4, 8, 16, 32)
_RESIDENT_TOKENS, _CONTEXT_TOKENS = 128, 256


def measure(subject: Subject, progress: Progress) -> dict[str, Any]:
    """Time passes, as ``edgedec.bench.studies.kernels`` does."""
    from edgedec.bench.harness.runtimes import OwnRun
    from edgedec.bench.studies.kernels import KernelReport, PassStudy, measure_passes, pass_costs, times_of
    from edgedec.bench.studies.weights import pass_weights

    spec = subject.manifest.spec
    context = min(_CONTEXT_TOKENS, spec.context_length)
    resident = min(_RESIDENT_TOKENS, context - max(_COUNTS))
    home, device = str(subject.home), subject.device
    side = OwnRun(subject.threads, home, context, device=device).side(subject.bundle)
    before = bandwidth.measure(subject.read, [subject.threads])
    study = PassStudy(_COUNTS, resident, subject.effort.rounds, spec.vocab_size)
    journal = measure_passes([side], study, progress)
    after, times = bandwidth.measure(subject.read, [subject.threads]), times_of(journal, EDGEDEC)
    report = KernelReport(
        subject.manifest.name, str(subject.conditions()["isa"]), subject.threads, resident,
        pass_weights(subject.bundle).streamed, max(one.gb_per_s for one in before + after),
        pass_costs(times), kv=journal.opened[EDGEDEC]["kv"],
    )  # fmt: skip
    runs = {str(size): [round(1e3 * one, 4) for one in took] for size, took in times.items()}
    return {**report.as_json(), "ms_runs": runs}


def figures(result: Mapping[str, Any]) -> list[Figure]:
    runs = result["ms_runs"]
    found = [
        Figure.median(f"pass over {one['tokens']}", runs[str(one["tokens"])], "ms", "less", timed=True)
        for one in result["passes"]
    ]
    whole = result["weight_bytes"] / (result["bandwidth_gb_s"] * 1e6)
    shares = [whole / ms for ms in runs["1"]]
    return [*found, Figure.median("share of the bandwidth", shares, "share", "more", timed=True)]


def view(result: Mapping[str, Any]) -> View:
    costs = result["passes"]
    rows = tuple(
        (
            str(one["tokens"]),
            number(one["ms"]),
            f"{number(one['ms_low'])} to {number(one['ms_high'])}",
            number(one["relative"]),
            number(one["relative"] / one["tokens"]),
        )
        for one in costs
    )
    measured = [(one["tokens"], one["relative"]) for one in costs]
    chart = Chart(
        "Cost of a pass", "tokens in the pass", "time, relative to one token",
        {"measured": measured, "one by one": [(one["tokens"], one["tokens"]) for one in costs]}, log=True,
    )  # fmt: skip
    return View(
        lines=(
            f"A pass over one token reads {size(result['weight_bytes'])} of weights at "
            f"{percent(result['bandwidth_fraction'])} of {number(result['bandwidth_gb_s'])} GB/s, the "
            "bandwidth of this machine. Drafted tokens are verified in one pass: the flatter the line, the "
            "more drafts can gain.",
        ),
        tables=(TableView(("tokens", "ms", "quartiles", "relative", "per token"), rows),),
        charts=(chart,),
        notes=(f"{result['resident_tokens']} tokens in the KV cache ({result['kv']}); logits of all rows.",),
    )
