"""Easy questions with one right number: whether the model answers sensibly at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgedec.bench.harness.pairing import wilson
from edgedec.bench.report.replies import answers, plain_side, study_of
from edgedec.bench.report.subject import Subject
from edgedec.bench.report.views import Figure, TableView, View, percent
from edgedec.core.errors import one_line
from edgedec.core.progress import Progress


def measure(subject: Subject, progress: Progress) -> dict[str, Any]:
    """Ask the questions, and count right answers as ``edgedec.bench.studies.quality`` does."""
    from edgedec.bench.harness.questions import Question
    from edgedec.bench.harness.study import PLAIN
    from edgedec.bench.studies.number_questions import easy_problems
    from edgedec.bench.studies.quality import compared
    from edgedec.text.tokenizer import Tokenizer

    problems = easy_problems(subject.effort.questions)
    questions = [Question(one.key, "numbers", (one.text,)) for one in problems]
    study, run = study_of(subject, questions, subject.effort.answer_tokens)
    journal = answers(subject, "quality", [plain_side(subject, run)], study, progress)
    tokenizer = Tokenizer.load(subject.bundle, subject.manifest.tokenizer)
    ends = study.stop
    _, found = compared(problems, journal, [PLAIN], decode=tokenizer.decode, ends=ends)
    wrong = []
    for problem, right in zip(problems, found[PLAIN].right, strict=True):
        reply = [token for token in journal.answers[problem.key, 0, PLAIN].tokens if token not in ends]
        if not right:
            wrong.append([problem.text, problem.answer, one_line(tokenizer.decode(reply))])
    return {
        "questions": len(problems),
        "right": sum(found[PLAIN].right),
        "cut": found[PLAIN].cut,
        "tokens_each": subject.effort.answer_tokens,
        "template": bool(subject.manifest.tokenizer.chat_template),
        "wrong": wrong,
    }


def figures(result: Mapping[str, Any]) -> list[Figure]:
    name = "easy questions, right"
    right, asked = result["right"], result["questions"]
    return [Figure(name, right / asked, "share", "more", short=name, interval=wilson(right, asked))]


def view(result: Mapping[str, Any]) -> View:
    base = () if result["template"] else ("A base model: it continues the questions as text.",)
    rows = tuple((asked, answer, reply.strip() or "(nothing)") for asked, answer, reply in result["wrong"])
    return View(
        lines=(
            f"{result['right']} of {result['questions']} easy questions right "
            f"({percent(result['right'] / result['questions'])}).",
            *base,
        ),
        tables=(TableView(("wrong", "right answer", "reply"), rows),) if rows else (),
        notes=(
            'Questions such as "How many days are in a week?", greedy; the last number of a reply counts. '
            f"Replies of at most {result['tokens_each']} tokens, {result['cut']} of them cut there. This "
            "shows a broken model, not a good one.",
        ),
    )
