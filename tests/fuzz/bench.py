"""Files that ``edgedec bench drafts`` reads: questions, and saved replies of an interrupted study."""

from __future__ import annotations

import json
import random
from dataclasses import asdict
from pathlib import Path

from edgedec.bench.harness.journal import Journal, SideAnswer
from edgedec.bench.harness.questions import chosen, read_questions
from tests.fuzz.mutate import mutate_json
from tests.fuzz.target import Files

QUESTIONS, SAVED = "questions.jsonl", "saved.jsonl"
_CONDITIONS = {"model": "tiny", "threads": 2}


def question_seeds(folder: Path) -> list[tuple[Files, Files]]:
    lines = [
        {"question_id": 81, "category": "writing", "turns": ["Write.", "Again."]},
        {"question_id": 240, "category": "qa", "turns": ["Who?"]},
        {"prompt": "Hello."},
    ]
    return [({QUESTIONS: _lines(lines)}, {})]


def saved_seeds(folder: Path) -> list[tuple[Files, Files]]:
    answer = SideAnswer(
        "81", 0, "edgedec+auto", 1, [5, 6, 7], 0.1, 0.2, draft_s=0.01, verify_s=0.1,
        rounds=[[3, 1], [0, 0]], drafters={"lookup": 100},
        notices=["a note"], prompt_tokens=9,
    )  # fmt: skip
    lines = [
        {"conditions": _CONDITIONS, "hash": "0"},
        {"opened": "edgedec", "facts": {"version": "1", "isa": "avx2", "load_s": 0.1}},
        {"answer": asdict(answer)},
    ]
    return [({SAVED: _lines(lines)}, {})]


def mutate(files: Files, rng: random.Random) -> None:
    """Damage one line, or cut the end off."""
    (name,) = files
    lines = files[name].split(b"\n")[:-1]
    if rng.random() < 0.1 or not lines:
        files[name] = files[name][: rng.randrange(len(files[name]) + 1)]
        return
    at = rng.randrange(len(lines))
    lines[at] = mutate_json(lines[at], rng)
    files[name] = b"".join(line + b"\n" for line in lines)


def read_question_file(folder: Path) -> None:
    questions = chosen(read_questions(folder / QUESTIONS), per_category=2)
    json.dumps([asdict(one) for one in questions], ensure_ascii=False)


def read_saved(folder: Path) -> None:
    """Resumed, and as far as a report looks at it."""
    journal = Journal.resume(_CONDITIONS, folder / SAVED)
    for answer in journal.answers.values():
        assert answer.rate is None or answer.rate >= 0 or answer.decode_s < 0
        json.dumps(asdict(answer))
    for facts in journal.opened.values():
        facts.get("version")


def _lines(lines: list[dict[str, object]]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)
