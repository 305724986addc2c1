"""Ways to draft beside plain decoding, and whether their replies are the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from edgedec.bench.measure.asked import answers, plain_side, study_of, way_side
from edgedec.bench.measure.subject import Subject
from edgedec.bench.measure.views import Figure, TableView, View, number, percent
from edgedec.core.progress import Progress

_AUTO, _LOOKUP, _PLAIN = "auto", "lookup", "plain"
_SHORT = {_PLAIN: "plain decoding", _AUTO: "with drafts"}
"""Ways whose speed is in the summary."""


def measure(subject: Subject, progress: Progress) -> dict[str, Any]:
    """Answer prompts with plain decoding and each way to draft, as ``edgedec.bench.studies.drafts`` does."""
    from edgedec.bench.harness.questions import plain_questions
    from edgedec.bench.harness.texts import PROMPTS
    from edgedec.bench.studies.drafts import DraftsReport
    from edgedec.bench.studies.weights import pass_weights

    questions = plain_questions(PROMPTS[: subject.effort.prompts])
    study, run = study_of(subject, questions, subject.effort.tokens)
    models = {name: str(path) for name, path in subject.usual()[1].drafts.items()}
    ways = (_AUTO, *(f"{_AUTO},{name}" for name in models), _LOOKUP)
    run = replace(run, modes={way: way for way in ways}, draft_models=models)
    sides = [plain_side(subject, run), *(way_side(subject, run, way) for way in ways)]
    journal = answers(subject, "drafts", sides, study, progress)
    weights = pass_weights(subject.bundle).trimmed(1.0)
    found = DraftsReport(questions, sides, journal, weights).as_json()
    kept = ("questions", "turns", "sides", "differing_replies", "notices", "overall")
    return {**{name: found[name] for name in kept}, "tokens_each": subject.effort.tokens}


def figures(result: Mapping[str, Any]) -> list[Figure]:
    found = []
    for side, score in result["overall"].items():
        way = _way(side)
        short = f"speed, {_SHORT[way]}" if way in _SHORT else ""
        found.append(Figure(f"{way}, speed", score["total_tokens_per_s"], "tokens/s", "more", short))
        if score["drafted_tokens"]:
            found += [
                Figure(f"{way}, block efficiency", score["block_efficiency"], "tokens a pass", "more"),
                Figure(f"{way}, acceptance rate", score["acceptance_rate"], "share", "more"),
            ]
            if score["mbsu"] is not None:
                found.append(Figure(f"{way}, MBSU", score["mbsu"], "", "more"))
    return found


def view(result: Mapping[str, Any]) -> View:
    rows: list[tuple[str, ...]] = []
    drafters: list[tuple[str, ...]] = []
    for side, score in result["overall"].items():
        speed_up = (score["speed_up"].get("edgedec") or {}).get("total")
        rows.append(
            (
                _way(side),
                number(score["total_tokens_per_s"]),
                number(speed_up),
                number(score["block_efficiency"]),
                percent(score["acceptance_rate"]),
                number(score["mbsu"]),
                number(score["mbsu_parameters"]),
            )
        )
        for name, one in score["by_drafter"].items():
            drafters.append(
                (
                    f"{name} ({_way(side)})",
                    number(one["drafted_tokens"], 6),
                    number(one["accepted_tokens"], 6),
                    number(one["gained_per_round"]),
                    number(one["ms_per_round"]),
                    percent(one["share_of_time"]),
                )
            )
    head: tuple[str, ...] = (
        "", "tokens/s", "speed-up", "block efficiency", "acceptance", "MBSU", "with embedding",
    )  # fmt: skip
    tables = [TableView(head, tuple(rows))]
    if drafters:
        head = ("drafter (way)", "drafted", "accepted", "gained a pass", "ms a pass", "share of time")
        tables.append(TableView(head, tuple(drafters)))
    return View(
        lines=(_exactness(result["differing_replies"]),),
        tables=tuple(tables),
        notes=(
            f"{result['turns']} prompts, at most {result['tokens_each']} tokens each, greedy; speed-up: all "
            "tokens by all time, to plain decoding. Block efficiency: tokens committed per pass. MBSU: the "
            "speed-up where nothing but reading weights takes time.",
            *result["notices"],
        ),
    )


def _way(side: str) -> str:
    """Return the way to draft of a side, such as "edgedec+auto"."""
    return side.partition("+")[2] or _PLAIN


def _exactness(found: Mapping[str, Mapping[str, int]]) -> str:
    replies, compared = (sum(one[key] for one in found.values()) for key in ("replies", "of"))
    if replies:
        return f"{replies} of {compared} replies with drafts differ from plain decoding. This is a bug."
    return f"All {compared} replies with drafts are those of plain decoding, token for token."
