"""Questions as the parts ask them: each in a process that opens the model, with replies kept one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from edgedec.bench.harness.journal import Journal, SideAnswer
from edgedec.bench.harness.memory_levels import Level
from edgedec.bench.harness.questions import Question
from edgedec.bench.harness.replies import ReplyStudy, collect_replies
from edgedec.bench.harness.runtimes import OwnRun
from edgedec.bench.harness.study import OFF, PLAIN, StudySide
from edgedec.bench.report.subject import Subject
from edgedec.core.progress import Progress
from edgedec.sampling import DrawParams

_ARGUMENTS: Mapping[str, Any] = {"sampling": asdict(DrawParams())}


def study_of(subject: Subject, questions: Sequence[Question], most_tokens: int) -> tuple[ReplyStudy, OwnRun]:
    """Return a study of these questions, and a run of the model with a context that they fit in."""
    study, context = ReplyStudy.of(subject.bundle, subject.manifest, questions, most_tokens)
    home, device = str(subject.home), subject.device
    return study, OwnRun(subject.threads, home, context, device=device, max_tokens=most_tokens)


def plain_side(subject: Subject, run: OwnRun) -> StudySide:
    """Return the side of plain decoding, whose process serves drafter sets too."""
    return StudySide(PLAIN, run.side(subject.bundle), OFF, _ARGUMENTS)


def drafting_side(subject: Subject, run: OwnRun, drafters: str, level: Level | None = None) -> StudySide:
    """Return the side of a drafter set: in the process of plain decoding, or in its own within a level."""
    if level is None:
        return StudySide(f"{PLAIN}+{drafters}", run.side(subject.bundle), drafters, _ARGUMENTS)
    name = f"{PLAIN}+{drafters} at {level.name}"
    return StudySide(name, run.side(subject.bundle, name), drafters, _ARGUMENTS, level)


def answers(
    subject: Subject, name: str, sides: Sequence[StudySide], study: ReplyStudy, progress: Progress
) -> Journal[SideAnswer]:
    """Collect the replies of a part; those of an earlier start are kept in its journal."""
    journal: Journal[SideAnswer] = Journal.resume(subject.conditions(), subject.journals / f"{name}.jsonl")
    collect_replies(sides, study, journal, progress)
    return journal
