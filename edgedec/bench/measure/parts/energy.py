"""Energy, memory-bound speed-up and the distance from the roofline, of replies with and without drafts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from edgedec.bench.harness.pairing import rounded
from edgedec.bench.measure.subject import Subject
from edgedec.bench.measure.views import Figure, TableView, View, number, percent
from edgedec.core.progress import Progress

_WAYS = {"plain": "off", "with drafts": "auto"}


def measure(subject: Subject, progress: Progress) -> dict[str, Any]:
    """Reply to prompts in this process, and gather the figures that every reply reports.

    Where a meter counts some replies and not others, all replies of that way count as estimated: measured and
    estimated joules are never added up.
    """
    from edgedec.assemble.config import RunConfig
    from edgedec.bench.harness.texts import PROMPTS
    from edgedec.metrics.measures import BANDWIDTH_FILE
    from edgedec.sampling import DrawParams
    from edgedec.telemetry import bandwidth

    found = bandwidth.measure(subject.read, [subject.threads])
    bandwidth.keep(found, subject.home / "costs" / BANDWIDTH_FILE)
    prompts, ways = PROMPTS[: subject.effort.prompts], {}
    for index, (name, draft) in enumerate(_WAYS.items()):
        with subject.opened(RunConfig(threads=subject.threads, draft=draft)) as model:
            chat, replies = model.chat(sampling=DrawParams(), max_tokens=subject.effort.tokens), []
            for turn, prompt in enumerate(prompts):
                progress(name, index * len(prompts) + turn, len(_WAYS) * len(prompts))
                chat.reset()
                reply = chat.reply(prompt) if model.loaded.template else chat.complete(prompt)
                reply.read()
                figures = model.single.measures.as_json(reply.marks, reply.stats)
                if reply.stats.completion_tokens > 1:
                    replies.append({**reply.stats.as_json(), **figures})
            ways[name] = _together(replies)
            tally = chat.speculation.tally if chat.speculation else None
            ways[name]["acceptance_by_depth"] = tally.as_json()["acceptance_by_depth"] if tally else []
    return {"ways": ways, "replies": len(prompts), "tokens_each": subject.effort.tokens}


def _together(replies: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return means over the decoded tokens of all replies."""
    tokens = sum(one["completion_tokens"] - 1 for one in replies)

    def mean(values: Sequence[float | None]) -> float | None:
        if not tokens or None in values:
            return None
        pairs = zip(values, replies, strict=True)
        return rounded(sum((value or 0.0) * (one["completion_tokens"] - 1) for value, one in pairs) / tokens)

    energy = [one["energy"] for one in replies]
    roofs = [one["roof"] or {} for one in replies]
    return {
        "tokens": tokens,
        "source": ", ".join(dict.fromkeys(one["source"] for one in energy)),
        "estimated": any(one["estimated"] for one in energy),
        "mixed": len({one["estimated"] for one in energy}) > 1,
        "reason": next((one["reason"] for one in energy if one.get("reason")), ""),
        "idle_w": next((one["idle_w"] for one in energy if one["idle_w"] is not None), None),
        "joules_per_token": mean([one["joules_per_token"] for one in energy]),
        "low": mean([one["per_token_low"] for one in energy]),
        "high": mean([one["per_token_high"] for one in energy]),
        "mbsu": mean([one["mbsu"] for one in replies]),
        "mbsu_with_embedding": mean([one["mbsu_with_embedding"] for one in replies]),
        "tokens_per_s": mean([one["decode_tokens_per_s"] for one in replies]),
        "roof_tokens_per_s": mean([one.get("roof_tokens_per_s") for one in roofs]),
        "roof_share": mean([one.get("share") for one in roofs]),
        "bytes_per_token": mean([one.get("bytes_per_token") for one in roofs]),
    }


def figures(result: Mapping[str, Any]) -> list[Figure]:
    found = []
    for name, way in result["ways"].items():
        kind = "estimated" if way["estimated"] else "measured"
        joules, read, share = way["joules_per_token"], way["bytes_per_token"], way["roof_share"]
        if joules is not None and not way["mixed"]:
            title = f"{name}, energy a token, {kind}"
            found.append(Figure(title, 1e3 * joules, "mJ", "less", short=title))
        if read is not None:
            found.append(Figure(f"{name}, bytes a token", read, "B", "less"))
        if share is not None:
            title = f"{name}, share of the roofline"
            found.append(Figure(title, share, "share", "more", short=title))
    return found


def view(result: Mapping[str, Any]) -> View:
    head = ("", "mJ a token", "low to high", "kind", "MBSU", "MB a token", "tokens/s", "roof", "reached")
    rows: list[tuple[str, ...]] = []
    sources: dict[str, list[str]] = {}
    for name, way in result["ways"].items():
        rows.append(
            (
                name,
                "-" if way["mixed"] else number(_scaled(way["joules_per_token"], 1e3)),
                f"{number(_scaled(way['low'], 1e3))} to {number(_scaled(way['high'], 1e3))}"
                if way["estimated"]
                else "-",
                "ESTIMATE" if way["estimated"] else "measured",
                number(way["mbsu"]),
                number(_scaled(way["bytes_per_token"], 1e-6)),
                number(way["tokens_per_s"]),
                number(way["roof_tokens_per_s"]),
                percent(way["roof_share"]),
            )
        )
        sources.setdefault(_source(way), []).append(name)
    energies = [f"Energy, {' and '.join(names)}: {source}" for source, names in sources.items()]
    return View(
        lines=(*energies, *_depths(result["ways"])),
        tables=(TableView(head, tuple(rows)),),
        notes=(
            f"{result['replies']} prompts, at most {result['tokens_each']} tokens each; decoding alone. The "
            "roof is the tokens per second that the memory bandwidth allows for the bytes read a token.",
        ),
    )


def _depths(ways: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a line for each way that drafted: the share of tokens that were right, by depth."""
    found = {
        name: [one for one in way["acceptance_by_depth"] if one is not None] for name, way in ways.items()
    }
    return [
        f"Drafted tokens that were right, {name}, by their depth in the draft (of those behind right ones): "
        f"{', '.join(map(percent, rates))}."
        for name, rates in found.items()
        if rates
    ]


def _source(way: Mapping[str, Any]) -> str:
    if way["estimated"]:
        return f"an estimate, not a measurement. {way['reason'] or 'No meter'}."
    idle = "" if way["idle_w"] is None else f", above idle power of {number(way['idle_w'])} W"
    return f"measured by {way['source']}{idle}."


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else factor * value
