"""Replies by what a text changes: ``python -P -m docs.measure.context MODEL [WEIGHT,...] [PART,...]``.

Three sets of questions, each greedily: 50 about a text that says other than what is known, the same about a
text that says what is known, and 20 about facts among others that nobody knows. Then the time of a token,
with drafts and without.
"""

from __future__ import annotations

import os
import re
import statistics
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

import edgedec
from edgedec.core.quick_dataclass import dataclass
from edgedec.session.reply import Reply

CONTEXT, MOST_TOKENS, LONG_TOKENS, ROUNDS = 2048, 16, 80, 3
BRIEFLY = "Answer in a few words."
SUMMARY = "Say in your own words what this text says."
HERE = Path(__file__).parent
PARTS = "questions,times"
KINDS = "fact", "saying"
Weight = float | None


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a text, the words of a right answer, and words that are none before it."""

    asked: edgedec.AboutText
    right: tuple[str, ...]
    wrong: str = ""

    def is_right(self, reply: str) -> bool:
        places = [at for word in self.right if (at := _place(reply, word)) >= 0]
        wrong = _place(reply, self.wrong) if self.wrong else -1
        return bool(places) and not 0 <= wrong < min(places)


def _place(text: str, word: str) -> int:
    found = re.search(rf"(?<!\w){re.escape(word)}", text, re.IGNORECASE)
    return found.start() if found else -1


def sets() -> dict[str, list[Question]]:
    """The questions by set."""
    told = tomllib.loads((HERE / "context.toml").read_text(encoding="utf-8"))
    found: dict[str, list[Question]] = {}
    for kind in KINDS:
        for name, right, wrong in (("against", "said", "known"), ("as known", "known", "said")):
            found[f"{kind}s, {name}"] = [
                Question(
                    edgedec.AboutText(f"{one['question']} {BRIEFLY}", one["text"].format(one[right])),
                    (one[right],),
                    one[wrong],
                )
                for one in told[kind]
            ]
    facts = tomllib.loads((HERE / "facts.toml").read_text(encoding="utf-8"))["prose"]
    text = " ".join(fact["statement"] for fact in facts)
    found["unknown facts"] = [
        Question(edgedec.AboutText(f"{fact['same']} {BRIEFLY}", text), tuple(fact["answers"]))
        for fact in facts
    ]
    return found


def asked(model: edgedec.Model, about: edgedec.AboutText, tokens: int) -> Reply:
    reply = model.chat(max_tokens=tokens).reply(about, final=True)
    reply.read()
    return reply


def opened(name: str, weight: Weight, draft: str) -> edgedec.Model:
    return edgedec.open(name, context=CONTEXT, context_weight=weight, draft=draft, temperature=0)


def right_answers(name: str, weights: Sequence[Weight]) -> Iterator[str]:
    """Ask all questions of a model for each weight, in turns."""
    models = [opened(name, weight, "off") for weight in weights]
    for kind, questions in sets().items():
        counts = [
            sum(one.is_right(asked(model, one.asked, MOST_TOKENS).text) for one in questions)
            for model in models
        ]
        words = (f"{_side(weight)} {count}" for weight, count in zip(weights, counts, strict=True))
        yield f"{kind}: of {len(questions)} right: {', '.join(words)}"
    for model in models:
        model.close()


def times(name: str, weights: Sequence[Weight]) -> Iterator[str]:
    """Let a model say in its own words what a text says, by weight and drafts, in turns."""
    sides = [(weight, draft) for weight in weights for draft in ("off", "auto")]
    models = {side: opened(name, *side) for side in sides}
    texts = [
        one.read_text(encoding="utf-8")[:2_500]
        for one in sorted((HERE.parent / "guide").glob("*.md"))[:ROUNDS]
    ]
    seconds: dict[tuple[Weight, str], list[float]] = {side: [] for side in sides}
    replies: dict[tuple[Weight, str], list[str]] = {side: [] for side in sides}
    for text in texts:
        for side, model in models.items():
            reply = asked(model, edgedec.AboutText(SUMMARY, text), LONG_TOKENS)
            seconds[side].append(reply.stats.decode_s / max(len(reply.tokens) - 1, 1))
            replies[side].append(reply.text)
    plain = seconds[sides[0]]
    for weight, draft in sides:
        ratios = [own / base for own, base in zip(seconds[weight, draft], plain, strict=True)]
        same = "" if replies[weight, draft] == replies[weight, "off"] else ", REPLIES DIFFER"
        each = 1000 * statistics.median(seconds[weight, draft])
        yield (
            f"{_side(weight)}, --draft {draft}: {each:.1f} ms a token, "
            f"{statistics.median(ratios):.2f} times plain decoding{same}"
        )
    for model in models.values():
        model.close()


def _side(weight: Weight) -> str:
    return "plain" if weight is None else f"weight {weight:g}"


def main(name: str, weights: str = "0.5,1", parts: str = PARTS) -> None:
    sides: list[Weight] = [None, *map(float, weights.split(","))]
    for part, lines in (("questions", right_answers), ("times", times)):
        for line in lines(name, sides) if part in parts.split(",") else ():
            print(f"{line}; load {os.getloadavg()[0]:.1f}", flush=True)  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
