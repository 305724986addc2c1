"""Cost of one pass over k tokens relative to a pass over one, and the memory bandwidth that decoding uses.

Drafted tokens are verified in one pass, so this curve decides how many are worth drafting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field

import numpy as np

from edgedec.bench.harness.energy import Energies, EnergyProbe, Spent, energies_of
from edgedec.bench.harness.journal import Journal
from edgedec.bench.harness.pairing import Spread, pair_ratios, rounded, settle, spread
from edgedec.bench.harness.runtimes import EDGEDEC
from edgedec.bench.harness.study import Case, OpenSide, Study, StudyRow, StudySide, run_study
from edgedec.bench.harness.worker import Side
from edgedec.bench.studies.gpu_kernels import KernelTime
from edgedec.core.errors import UsageError
from edgedec.core.progress import Progress
from edgedec.core.quick_dataclass import dataclass
from edgedec.metrics.traffic import Traffic, Work

PassTimes = Mapping[int, Sequence[float]]
"""Tokens in a pass -> its time in s in every round."""


@dataclass(frozen=True, slots=True)
class PassCost:
    """Time in ms of a pass over ``tokens`` tokens, and its ratio to the pass over one in the same round.

    ``resident``: tokens in the cache before both, where passes of a report differ in that.
    """

    tokens: int
    ms: Spread
    relative: Spread
    resident: int | None = None

    @property
    def name(self) -> str:
        """Its name among the energies of a report."""
        return pass_name(self.tokens, self.resident)

    def as_json(self) -> dict[str, float]:
        behind = {} if self.resident is None else {"resident_tokens": self.resident}
        return {"tokens": self.tokens, **behind, **self.ms.named("ms"), **self.relative.named("relative")}


def pass_name(tokens: int, resident: int | None) -> str:
    """Name a pass; ``resident``: tokens before it, where passes of a report differ in that."""
    return str(tokens) if resident is None else f"{tokens} behind {resident}"


@dataclass(frozen=True, slots=True)
class PeerCost:
    """The same pass of another runtime. ``ratio`` is its time divided by EdgeDec's in the same round."""

    cost: PassCost
    ratio: Spread

    def as_json(self) -> dict[str, float]:
        return {**self.cost.as_json(), **self.ratio.named("ratio")}


@dataclass(frozen=True, slots=True)
class KernelReport:
    """Pass costs of one model on one kernel row. Every pass reads ``weight_bytes`` once.

    ``resident``: tokens in the cache; several where each pass names its own. ``peers``: the same passes of
    other runtimes. ``energies``: joules a token, by names of passes. ``kv``: type of the KV cache, None where
    another runtime chooses it.
    """

    model: str
    isa: str
    threads: int
    resident: int | Sequence[int]
    weight_bytes: int
    bandwidth_gb_s: float
    passes: tuple[PassCost, ...]
    peers: Mapping[str, tuple[PeerCost, ...]] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    kv: str | None = "fp16"
    energies: Energies | None = None
    gpu: tuple[KernelTime, ...] = ()
    """Of each kernel, where a GPU ran."""

    @property
    def bandwidth_fraction(self) -> float:
        """Weights read per second by the first passes over one token, divided by the measured bandwidth."""
        one = next(cost for cost in self.passes if cost.tokens == 1)
        return self.weight_bytes / (one.ms.median * 1e-3) / (self.bandwidth_gb_s * 1e9)

    def as_json(self) -> dict[str, object]:
        return {
            "model": self.model,
            "isa": self.isa,
            "threads": self.threads,
            "resident_tokens": self.resident if isinstance(self.resident, int) else list(self.resident),
            "kv": self.kv,
            "weight_bytes": self.weight_bytes,
            "bandwidth_gb_s": rounded(self.bandwidth_gb_s),
            "bandwidth_fraction": rounded(self.bandwidth_fraction),
            "passes": [cost.as_json() for cost in self.passes],
            "peers": {name: [cost.as_json() for cost in costs] for name, costs in self.peers.items()},
            "versions": dict(self.versions),
            **({"energy": self.energies.as_json()} if self.energies else {}),
            **({"kernels": [one.as_json() for one in self.gpu]} if self.gpu else {}),
        }


@dataclass(frozen=True, slots=True)
class PassStudy:
    """Passes to time: their numbers of tokens, the tokens in the cache before, and rounds.

    ``named``: names and costs of passes say how many tokens were in the cache.
    """

    counts: Sequence[int]
    resident: int
    repeat: int
    vocab_size: int
    settle: Callable[[], None] = settle
    energy: EnergyProbe | None = None
    named: bool = False

    @property
    def behind(self) -> int | None:
        """Resident tokens, where passes are named by them."""
        return self.resident if self.named else None

    @property
    def sizes(self) -> list[int]:
        return sorted({1, *self.counts})

    @property
    def tokens(self) -> list[int]:
        """Those in the cache, and those of the longest pass."""
        count = self.resident + self.sizes[-1]
        found: list[int] = np.random.default_rng(0).integers(0, self.vocab_size, count).tolist()
        return found


def measure_passes(sides: Sequence[Side], study: PassStudy, progress: Progress) -> Journal[StudyRow]:
    """Time passes with logits of all rows. A row's ``took`` has the ``seconds`` of one pass.

    Every round goes through all numbers of tokens and begins with another one, so that a slow moment of the
    machine does not fall on one of them. The sides take turns at each number. The first round warms up:
    buffers are made, pages touched. Raises UsageError when a pass is too long, and the errors of ``Worker``.
    """
    tokens, several = study.tokens, len(sides) > 1
    new = tokens[study.resident :]

    def warm(host: OpenSide, case: Case, side: StudySide) -> None:
        longest = host.facts.get("max_pass", study.sizes[-1])
        if study.sizes[-1] > longest:
            raise UsageError(f"a pass takes 1 to {longest} tokens, not {study.sizes[-1]}")
        host.request("fill", tokens=tokens[: study.resident])

    def ask(host: OpenSide, case: Case, side: StudySide) -> StudyRow:
        if several:
            study.settle()
            host.request("extend", tokens=new[:1])  # wakes its threads, and fills the CPU's caches again
        took = host.metered("extend", "seconds", tokens=new[: case.data])
        return StudyRow(case.key, side.name, took)

    cases, everyone = list(_cases(study)), [StudySide.of(side) for side in sides]
    run = Study(
        sides=everyone, cases=cases, total=len(cases), ask=ask, warm=warm, first=everyone, energy=study.energy
    )
    return run_study(run, Journal(), progress)


def _cases(study: PassStudy) -> Iterator[Case]:
    sizes = study.sizes
    for turn in range(study.repeat + 1):
        for index in range(len(sizes)):
            size = sizes[(turn + index) % len(sizes)]
            yield Case((turn, size), turn + index, size)


def times_of(journal: Journal[StudyRow], side: str) -> PassTimes:
    """Return the times of one side's passes, without the round that warmed up."""
    found: dict[int, list[float]] = {}
    for row in _counted(journal, side):
        found.setdefault(int(row.case[1]), []).append(row.took["seconds"])
    return dict(sorted(found.items()))


def _counted(journal: Journal[StudyRow], side: str) -> list[StudyRow]:
    return [row for row in journal.answers.values() if row.side == side and row.case[0] != 0]


def energies_of_passes(
    journal: Journal[StudyRow], study: PassStudy, traffic: Traffic, window: int, reason: str
) -> Energies:
    """Return the joules a token of EdgeDec's passes, by their names. ``window``: see ``Work.plus``."""
    spent: dict[str, list[Spent]] = {pass_name(size, study.behind): [] for size in study.sizes}
    for row in _counted(journal, EDGEDEC):
        size = int(row.case[1])
        work = Work().plus(size, study.resident + size, window)
        spent[pass_name(size, study.behind)].append(
            Spent(size, work, 0.0, row.took.get("joules"), row.took.get("meter", ""))
        )
    return energies_of(spent, dict.fromkeys(spent, traffic), reason)


def pass_costs(times: PassTimes, resident: int | None = None) -> tuple[PassCost, ...]:
    """Return the pass costs of one side, fewest tokens first. ``resident``: see ``PassCost``."""
    return tuple(
        PassCost(size, spread(1e3 * t for t in took), spread(pair_ratios(took, times[1])), resident)
        for size, took in times.items()
    )


def peer_costs(theirs: PassTimes, ours: PassTimes, resident: int | None = None) -> tuple[PeerCost, ...]:
    """Return the pass costs of a peer, with ratios to EdgeDec's."""
    return tuple(
        PeerCost(cost, spread(pair_ratios(theirs[cost.tokens], ours[cost.tokens])))
        for cost in pass_costs(theirs, resident)
    )
