"""The machine: processor, kernel row, threads, memory and its bandwidth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from edgedec.bench.report.subject import Subject
from edgedec.bench.report.views import Figure, TableView, View
from edgedec.core.progress import Progress
from edgedec.core.units import size
from edgedec.telemetry import bandwidth
from edgedec.telemetry.machine import describe

_READINGS = 7


def measure(subject: Subject, progress: Progress) -> dict[str, Any]:
    """Describe this machine and the model, and measure the memory bandwidth."""
    from edgedec.bench.studies.weights import pass_weights

    runs: dict[int, list[float]] = {}
    for _ in range(_READINGS):
        for one in bandwidth.measure(subject.read, {1, subject.threads}, repeats=1):
            runs.setdefault(one.threads, []).append(round(one.gb_per_s, 3))
    return {
        "machine": describe().as_json(),
        "conditions": dict(subject.conditions()),
        "bandwidth": [{"threads": threads, "gb_per_s": runs[threads]} for threads in sorted(runs)],
        "weight_bytes": pass_weights(subject.bundle).streamed,
        "layers": subject.manifest.spec.n_layers,
        "vocabulary": subject.manifest.spec.vocab_size,
    }


def figures(result: Mapping[str, Any]) -> list[Figure]:
    found = [
        Figure.median(_bandwidth(one), one["gb_per_s"], "GB/s", "more", timed=True)
        for one in result["bandwidth"]
    ]
    return [*found[:-1], replace(found[-1], short=f"memory {found[-1].name}")]


def view(result: Mapping[str, Any]) -> View:
    machine, conditions = result["machine"], result["conditions"]
    memory = machine["memory_bytes"]
    rows = [
        ("processor", f"{machine['cpu']} ({machine['architecture']})"),
        ("system", machine["system"]),
        ("cores", f"{machine['cores']} usable of {machine['logical_cpus']}"),
        ("memory", size(memory) if memory else "unknown"),
        ("features", " ".join(machine["features"]) or "none known"),
        ("kernel row", conditions["isa"]),
        ("threads", str(conditions["threads"])),
        ("EdgeDec", conditions["version"]),
        ("model", f"{conditions['model']}, weights {conditions['weights']}"),
        ("", f"{result['layers']} layers, vocabulary {result['vocabulary']:,}"),
        ("read by a pass", size(result["weight_bytes"])),
    ]
    rows += [(one.name, one.worded()) for one in figures(result)]
    return View(tables=(TableView(("", ""), tuple(rows)),))


def _bandwidth(one: Mapping[str, Any]) -> str:
    return f"bandwidth, {one['threads']} thread{'s' if one['threads'] != 1 else ''}"
