"""Peak memory of runtimes on the same weights, prompt, context and number of new tokens, one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from edgedec.bench.harness.cgroups import Cgroup, cgroup
from edgedec.bench.harness.energy import EnergyProbe
from edgedec.bench.harness.journal import Journal, SideAnswer
from edgedec.bench.harness.prepare import prepared
from edgedec.bench.harness.study import Case, OpenSide, Study, StudyRow, StudySide, run_alone
from edgedec.bench.harness.worker import Worker
from edgedec.core.errors import MemoryBudgetError
from edgedec.core.progress import Progress
from edgedec.core.quick_dataclass import dataclass
from edgedec.system.files import forget


@dataclass(frozen=True, slots=True)
class PeakMemory:
    """Memory of a side's process, in bytes.

    - ``loaded_peak_rss_bytes``, ``peak_rss_bytes``: peak of resident memory up to the end of loading and of
      the reply (VmHWM). Private memory and pages of mapped files count, weights among them.
    - ``mapped_bytes``, ``private_bytes``: these two parts after the reply.
    - ``group_peak_bytes``: peak that the kernel charged to a cgroup, which counts files that are read and not
      mapped too; None where no group could be made.
    """

    version: str
    loaded_peak_rss_bytes: int
    peak_rss_bytes: int
    mapped_bytes: int
    private_bytes: int
    group_peak_bytes: int | None
    decode_tokens_per_s: float


def measure_memory(
    asked: Sequence[StudySide],
    prompt: Sequence[int],
    max_tokens: int,
    progress: Progress,
    probe: EnergyProbe | None = None,
) -> tuple[dict[str, PeakMemory], dict[str, SideAnswer]]:
    """Run each side alone: load, read ``prompt``, continue it by ``max_tokens`` tokens.

    Returns the replies too, of which ``probe`` measures the joules. Raises the errors of ``prepared`` and
    ``Worker``, MemoryBudgetError for a side whose budget is too small.
    """
    processes = prepared([one.process for one in asked], progress)
    sides = [replace(one, process=process) for one, process in zip(asked, processes, strict=True)]

    def ask(host: _Held, case: Case, side: StudySide) -> StudyRow:
        loaded = host.request("memory")["peak_rss_bytes"]
        op, how = ("reply", {"mode": side.mode}) if side.ours else ("generate", {})
        took = host.metered(
            op, "decode_s", tokens=list(prompt), max_tokens=max_tokens, **how, **side.arguments
        )
        memory = {
            "version": host.facts.get("version", ""),
            "loaded_peak_rss_bytes": loaded,
            "peak_rss_bytes": host.request("memory")["peak_rss_bytes"],
            **host.request("resident"),
            "group_peak_bytes": host.group.peak() if host.group else None,
        }
        return StudyRow(case.key, side.name, {**took, "memory": memory})

    run = Study(sides=sides, cases=(Case(("prompt",)),), total=1, ask=ask, open=partial(_held, probe))
    journal: Journal[StudyRow] = run_alone(run, Journal(), progress)
    rows = journal.answers.values()
    replies = {row.side: _reply(row, len(prompt)) for row in rows}
    speeds = {side: one.decoded / one.decode_s for side, one in replies.items()}
    found = {row.side: PeakMemory(**row.took["memory"], decode_tokens_per_s=speeds[row.side]) for row in rows}
    return found, replies


class _Held(OpenSide):
    """A process in a cgroup of its own, where one could be made."""

    group: Cgroup | None = None


@contextmanager
def _held(probe: EnergyProbe | None, side: StudySide) -> Iterator[_Held]:
    with Worker(side.process) as before:  # reads programs and libraries: the cgroup is not charged for them
        before.open()
    _forget_files(side.process.model)
    with cgroup() as group, Worker(side.process, group.enter if group else None) as worker:
        facts = worker.open()
        if "refused" in facts:
            raise MemoryBudgetError(facts["refused"])
        host = _Held(worker, facts, probe)
        host.group = group
        yield host


def _reply(row: StudyRow, prompt_tokens: int) -> SideAnswer:
    """Read a row. A side that tells no rounds decoded plainly."""
    took = row.took
    tokens, rounds = took["tokens"], took.get("rounds")
    return SideAnswer(
        "", 0, row.side, 1, tokens, took["prefill_s"], took["decode_s"],
        by_drafter=took.get("by_drafter", {}), prompt_tokens=prompt_tokens,
        rounds=[[0, 0]] * (len(tokens) - 1) if rounds is None else rounds,
        joules=took.get("joules"), meter=took.get("meter", ""),
    )  # fmt: skip


def _forget_files(model: Path) -> None:
    """Ask the system to drop cached pages of a model's files, so that the next reader is charged for them.

    Pages that another process has mapped stay.
    """
    files = [path for path in model.iterdir() if path.is_file()] if model.is_dir() else [model]
    for path in files:
        with suppress(OSError):  # not there
            forget(path)
