"""Ways to draft beside plain decoding: speed, energy, the roofline, and whether replies are the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from edgedec.bench.harness.pairing import median_interval, rounded
from edgedec.bench.report.replies import answers, drafting_side, plain_side, study_of
from edgedec.bench.report.subject import Subject
from edgedec.bench.report.views import Figure, TableView, View, number, percent
from edgedec.core.progress import Progress

if TYPE_CHECKING:
    from edgedec.bench.harness.journal import SideAnswer
    from edgedec.metrics.traffic import Traffic

_AUTO, _LOOKUP, _PLAIN = "auto", "lookup", "plain"
_SHORT = {_PLAIN: "plain decoding", _AUTO: "with drafts"}
"""Ways that are in the summary."""


def measure(subject: Subject, progress: Progress) -> dict[str, Any]:
    """Answer prompts with plain decoding and each drafter set, as ``edgedec.bench.studies.drafts`` does."""
    from edgedec.bench.harness.energy import EnergyProbe, traffics
    from edgedec.bench.harness.questions import plain_questions
    from edgedec.bench.harness.texts import QUESTIONS
    from edgedec.bench.studies.drafts import DraftsReport, energies_of_report
    from edgedec.bench.studies.weights import pass_weights

    questions = plain_questions(QUESTIONS[: subject.effort.prompts])
    study, run = study_of(subject, questions, subject.effort.tokens)
    probe = EnergyProbe()
    drafter_sets = (_AUTO, _LOOKUP)
    run = replace(run, modes={drafters: drafters for drafters in drafter_sets})
    sides = [plain_side(subject, run), *(drafting_side(subject, run, drafters) for drafters in drafter_sets)]
    journal = answers(subject, "drafts", sides, replace(study, energy=probe), progress)
    report = DraftsReport(questions, sides, journal, pass_weights(subject.bundle).trimmed(1.0))
    (traffic,) = traffics(["edgedec"], subject.manifest, None, "fp16").values()
    window, found = subject.manifest.spec.window, report.as_json()
    kept = ("questions", "turns", "sides", "differing_replies", "notices", "overall")
    return {
        **{name: found[name] for name in kept},
        "tokens_each": subject.effort.tokens,
        "bandwidth_gb_per_s": max(subject.reading() for _ in range(3)),
        "energy": energies_of_report(report, subject.manifest, None, probe).as_json(),
        "runs": {side: _runs(report.answers(side), traffic, window) for side in report.sides},
    }


def _runs(replies: Sequence[SideAnswer], traffic: Traffic, window: int) -> dict[str, list[float]]:
    """Return the figures of each reply of two tokens or more."""
    from edgedec.bench.harness.energy import energies_of_replies
    from edgedec.metrics.traffic import decoding_work

    found: dict[str, list[float]] = {"tokens_per_s": [], "block_efficiency": [], "joules": [], "bytes": []}
    for one in (reply for reply in replies if reply.rate):
        work = decoding_work(one.prompt_tokens, [(a, b) for a, b in one.rounds], window)
        drafts = sum(drafter.get("bytes_read", 0.0) for drafter in one.by_drafter.values())
        energy = energies_of_replies({"": [one]}, {"": traffic}, window, "").by_side[""]
        found["tokens_per_s"].append(rounded(one.rate or 0.0))
        found["block_efficiency"].append(rounded(one.decoded / len(one.rounds)))
        found["joules"].append(rounded(energy.joules))
        found["bytes"].append(rounded((traffic.bytes_read(work) + drafts) / one.decoded))
    return found


def figures(result: Mapping[str, Any]) -> list[Figure]:
    found = []
    for side, score in result["overall"].items():
        drafters, runs = _drafters_of(side), result["runs"][side]
        short = f"speed, {_SHORT[drafters]}" if drafters in _SHORT else ""
        found.append(_speed(result, side, short))
        if score["drafted_tokens"]:
            low, high = median_interval(runs["block_efficiency"])
            value = score["block_efficiency"]
            bounds = min(low, value), max(high, value)
            found.append(
                Figure(f"{drafters}, block efficiency", value, "tokens a pass", "more", interval=bounds)
            )
        found += _costs(result, side)
    return found


def _speed(result: Mapping[str, Any], side: str, short: str = "") -> Figure:
    """Return the one speed of a drafter set: the median of its replies."""
    runs = result["runs"][side]["tokens_per_s"]
    return Figure.median(f"{_drafters_of(side)}, speed", runs, "tokens/s", "more", short=short, timed=True)


def _costs(result: Mapping[str, Any], side: str) -> list[Figure]:
    """Return energy and the share of the roofline."""
    drafters, runs = _drafters_of(side), result["runs"][side]
    found = []
    if energy := result["energy"]["sides"].get(side):
        title = f"{drafters}, energy a token, {'estimated' if energy['estimated'] else 'measured'}"
        each = [1e3 * one for one in runs["joules"]]
        found.append(Figure.median(title, each, "mJ", "less", short=title if drafters in _SHORT else ""))
    pairs = zip(runs["tokens_per_s"], runs["bytes"], strict=True)
    shares = [rate * count / (1e9 * result["bandwidth_gb_per_s"]) for rate, count in pairs]
    title = f"{drafters}, share of the roofline"
    short = title if drafters in _SHORT else ""
    return [*found, Figure.median(title, shares, "share", "more", short=short, timed=True)]


def view(result: Mapping[str, Any]) -> View:
    rows: list[tuple[str, ...]] = []
    drafters: list[tuple[str, ...]] = []
    costs: list[tuple[str, ...]] = []
    for side, score in result["overall"].items():
        speed_up = (score["speed_up"].get("edgedec") or {}).get("median")
        rows.append(
            (
                _drafters_of(side),
                _speed(result, side).worded(),
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
                    f"{name} ({_drafters_of(side)})",
                    number(one["drafted_tokens"], 6),
                    number(one["accepted_tokens"], 6),
                    number(one["gained_per_round"]),
                    number(one["ms_per_round"]),
                    percent(one["share_of_time"]),
                )
            )
        costs += [(one.name, one.worded()) for one in _costs(result, side)]
    head = ("", "speed", "speed-up", "block efficiency", "acceptance", "MBSU", "with embedding")
    tables = [TableView(head, tuple(rows))]
    if drafters:
        about = ("drafter (set)", "drafted", "accepted", "gained a pass", "ms a pass", "share of time")
        tables.append(TableView(about, tuple(drafters)))
    tables.append(TableView(("", "each token"), tuple(costs)))
    return View(
        lines=(_exactness(result["differing_replies"]), _source(result["energy"]), *_depths(result)),
        tables=tuple(tables),
        notes=(
            f"{result['turns']} prompts, at most {result['tokens_each']} tokens each, greedy; medians of "
            "replies, with 95 % intervals. Block efficiency: tokens committed per pass. MBSU: the speed-up "
            "where nothing but reading weights takes time. Roofline: the tokens per second that the memory "
            "bandwidth allows for the bytes read a token.",
            *result["notices"],
        ),
    )


def _drafters_of(side: str) -> str:
    """Return the drafter set of a side, such as "edgedec+auto"."""
    return side.partition("+")[2] or _PLAIN


def _exactness(found: Mapping[str, Mapping[str, int]]) -> str:
    replies, compared = (sum(one[key] for one in found.values()) for key in ("replies", "of"))
    if replies:
        return f"{replies} of {compared} replies with drafts differ from plain decoding. This is a bug."
    return f"All {compared} replies with drafts are those of plain decoding, token for token."


def _source(energy: Mapping[str, Any]) -> str:
    """Say how joules were found."""
    sides = energy["sides"].values()
    if not sides:
        return "Energy: neither measured nor estimated."
    if any(one["estimated"] for one in sides):
        return f"Energy: an estimate, not a measurement. {energy.get('reason') or 'No meter'}."
    sources = ", ".join(dict.fromkeys(one["source"] for one in sides))
    return f"Energy: above idle power, measured by {sources}."


def _depths(result: Mapping[str, Any]) -> list[str]:
    """Return a line for each drafter set: the share of tokens that were right, by depth."""
    found = []
    for side, score in result["overall"].items():
        rates = [one for one in score["acceptance_by_depth"] if one is not None]
        if rates:
            shown = ", ".join(map(percent, rates))
            about = f"Drafted tokens that were right, {_drafters_of(side)}, by depth (behind right ones)"
            found.append(f"{about}: {shown}.")
    return found
