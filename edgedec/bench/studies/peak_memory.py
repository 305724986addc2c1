"""Peak memory of runtimes on the same weights, prompt, context and number of new tokens, one by one."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from edgedec.bench.harness.control_group import control_group
from edgedec.bench.harness.energy import EnergyProbe, MeterWatch
from edgedec.bench.harness.journal import SideAnswer
from edgedec.bench.harness.pairing import rounded
from edgedec.bench.harness.prepare import prepared
from edgedec.bench.harness.worker import Side, Worker
from edgedec.core.errors import MemoryBudgetError
from edgedec.core.progress import Progress


@dataclass(frozen=True, slots=True)
class MemorySide:
    """A side, with the request that it gets: ``op`` and ``arguments`` beside the tokens and their number."""

    side: Side
    op: str = "generate"
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PeakMemory:
    """Memory of a side's process, in bytes.

    - ``loaded``, ``peak``: peak of resident memory up to the end of loading and of the reply (VmHWM). Private
      memory and pages of mapped files count, weights among them.
    - ``mapped``, ``private``: these two parts after the reply.
    - ``group``: peak that the kernel charged to a control group, which counts files that are read and not
      mapped too; None where no group could be made.
    - ``reply``: the tokens, times, rounds and joules of the reply.
    """

    version: str
    loaded: int
    peak: int
    mapped: int
    private: int
    group: int | None
    reply: SideAnswer

    @property
    def tokens_per_s(self) -> float:
        """Speed of decoding."""
        return self.reply.decoded / self.reply.decode_s

    def as_json(self) -> dict[str, Any]:
        return {
            "version": self.version,
            "loaded_peak_rss_bytes": self.loaded,
            "peak_rss_bytes": self.peak,
            "mapped_bytes": self.mapped,
            "private_bytes": self.private,
            "group_peak_bytes": self.group,
            "decode_tokens_per_s": rounded(self.tokens_per_s),
        }


def measure_memory(
    asked: Sequence[MemorySide],
    prompt: Sequence[int],
    max_tokens: int,
    progress: Progress,
    probe: EnergyProbe | None = None,
) -> dict[str, PeakMemory]:
    """Run each side alone: load, read ``prompt``, continue it by ``max_tokens`` tokens.

    ``probe`` measures the joules of each reply. Raises the errors of ``prepared`` and ``Worker``,
    MemoryBudgetError for a side whose budget is too small.
    """
    sides = prepared([one.side for one in asked], progress)
    found = {}
    for number, (one, side) in enumerate(zip(asked, sides, strict=True)):
        progress("measuring", number, len(asked))
        arguments = {"tokens": list(prompt), "max_tokens": max_tokens, **one.arguments}
        found[side.name] = _held(side, one.op, arguments, str(number), probe)
    progress("measuring", len(asked), len(asked))
    return found


def _held(
    side: Side, op: str, arguments: Mapping[str, Any], name: str, probe: EnergyProbe | None
) -> PeakMemory:
    with Worker(side) as before:  # reads programs and libraries, so that the group is not charged for them
        before.open()
    _forget_files(side.model)
    with control_group(f"-{name}") as group, Worker(side, group.enter if group else None) as worker:
        facts = worker.open()
        if "refused" in facts:
            raise MemoryBudgetError(facts["refused"])
        loaded = worker.request("memory")["peak_rss_bytes"]
        with probe.watch() if probe else nullcontext(MeterWatch()) as watch:
            took = worker.request(op, **arguments)
        peak = worker.request("memory")["peak_rss_bytes"]
        parts = worker.request("resident")
        charged = group.peak() if group else None
    version, reply = facts.get("version", ""), _answer(side.name, took, len(arguments["tokens"]))
    joules = watch.last(reply.decode_s)
    reply = replace(reply, joules=joules, meter=probe.meter if probe and joules is not None else "")
    return PeakMemory(version, loaded, peak, parts["mapped_bytes"], parts["private_bytes"], charged, reply)


def _answer(side: str, took: Mapping[str, Any], prompt_tokens: int) -> SideAnswer:
    """Return the reply of a side. One that tells no rounds decoded plainly."""
    tokens, rounds = took["tokens"], took.get("rounds")
    return SideAnswer(
        "", 0, side, 1, tokens, took["prefill_s"], took["decode_s"],
        by_drafter=took.get("by_drafter", {}), prompt_tokens=prompt_tokens,
        rounds=[[0, 0]] * (len(tokens) - 1) if rounds is None else rounds,
    )  # fmt: skip


def _forget_files(model: Path) -> None:
    """Ask the system to drop cached pages of a model's files, so that the next reader is charged for them.

    Pages that another process has mapped stay.
    """
    files = [path for path in model.iterdir() if path.is_file()] if model.is_dir() else [model]
    for path in files:
        with suppress(OSError, AttributeError):  # not there, or no such call
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)
