"""``python -m tests.fuzz``: see the package."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from tests.conftest import ROOT
from tests.fuzz.campaign import Plan, Summary, run
from tests.fuzz.targets import TARGETS
from tests.kernels.sanitizers import environment


def main() -> int:
    """0 when every input ended in success or in one line; 1 with findings."""
    args = _arguments()
    if args.kernels is not None:
        os.environ.update(environment(args.kernels))  # for the workers
    plan = Plan(
        targets=tuple(args.target or TARGETS),
        inputs=args.inputs,
        seed=args.seed,
        seconds=args.seconds,
        workers=args.workers,
        limit_s=args.limit,
        memory=args.memory << 20,
        save=args.save,
    )
    summary = run(plan)
    print(table(summary))
    return 1 if summary.findings else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description="Damaged files must end in one line."
    )
    parser.add_argument("--inputs", type=int, default=100_000, help="in all, shared by the targets")
    parser.add_argument("--seconds", type=float, default=600, help="stop after these, whatever is left")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--target", action="append", choices=list(TARGETS), help="may be given more than once"
    )
    parser.add_argument("--workers", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--limit", type=float, default=10, help="seconds an input may take")
    parser.add_argument("--memory", type=int, default=1024, help="MiB of address space an input may take")
    parser.add_argument("--save", type=Path, default=ROOT / "build" / "fuzz", help="folder for what is found")
    parser.add_argument("--kernels", type=Path, help="a kernel library that was built with sanitizers")
    return parser.parse_args()


def table(summary: Summary) -> str:
    """The summary for people."""
    lines = []
    for name, tally in summary.tallies.items():
        outcomes = ", ".join(f"{kind} {count}" for kind, count in tally.outcomes.most_common())
        lines.append(
            f"{name:13}{tally.inputs:7} inputs, slowest {tally.slowest_s:5.2f} s, "
            f"most {tally.most_bytes >> 20:4} MiB: {outcomes}"
        )
    for found in summary.findings:
        where = f" at {found.where}" if found.where else ""
        again = f"--seed {found.seed} input {found.index} steps {list(found.steps)}"
        lines.append(
            f"FOUND {found.target} {found.kind}{where}, {found.times} times ({again}): {found.error}"
        )
    total = sum(tally.inputs for tally in summary.tallies.values())
    lines.append(f"{total} inputs in {summary.seconds:.0f} s, {len(summary.findings)} findings")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
