"""Facts found in a part of a long prompt: ``python -P -m docs.measure.kept MODEL [SHARE] [FACTS] [ENCODER]``.

Facts stand in the guide and in source of the standard library, about 15,000 tokens of each. The question is
at the end, in the words of its fact or in others. The same questions are answered from the whole text, whose
KV cache stays, and from the share of it that ``generate --prompt-keep`` reads.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence

import edgedec
from docs.measure.long_texts import PLACES, Fact, facts, sown, text
from edgedec.cli.options import ENCODER
from edgedec.core.quick_dataclass import dataclass
from edgedec.text.kept_parts import Rank, shortened

CHARACTERS = {"prose": 60_000, "code": 60_000}
CONTEXT, MOST_TOKENS = 20_000, 40
SYSTEM = "Answer the question at the end from the text, in a few words."


@dataclass(slots=True)
class FoundFacts:
    """Facts found of those asked for, by the words of the question; tokens and seconds of first tokens."""

    found: dict[str, list[bool]]
    tokens: list[int]
    seconds: list[float]

    def told(self, whole: bool) -> str:
        words = ", ".join(f"{sum(each)} of {len(each)} in {name} words" for name, each in self.found.items())
        seconds = self.seconds[0] if whole else sum(self.seconds) / len(self.seconds)
        return f"{words}; {max(self.tokens)} tokens, first token after {seconds:.1f} s"


def asked(model: edgedec.Model, whole: str, hidden: Sequence[Fact], share: float, rank: Rank) -> FoundFacts:
    side = FoundFacts({"its": [], "other": []}, [], [])
    for fact in hidden:
        for words, question in (("its", fact.same), ("other", fact.other)):
            begun = time.perf_counter()
            prompt = shortened(f"{whole}\n\n{question}", share, rank, question)
            ready = time.perf_counter() - begun
            reply = model.chat(system=SYSTEM, max_tokens=MOST_TOKENS).reply(prompt, final=True)
            side.found[words].append(fact.in_reply(reply.read()))
            side.tokens.append(reply.stats.prompt_tokens)
            side.seconds.append(ready + reply.stats.prefill_s)
    return side


def main(name: str, share: str = "25%", count: str = "20", encoder: str = ENCODER) -> None:
    scorer = edgedec.open_encoder(encoder)

    def rank(query: str, parts: Sequence[str]) -> list[float]:
        return [float(one) for one in scorer.rank(query, parts).vectors[:, 0]]

    with edgedec.open(name, context=CONTEXT, draft="lookup", temperature=0) as model:
        for kind in PLACES:
            hidden = facts(kind)
            whole = sown(text(kind)[: CHARACTERS[kind]], kind, hidden)
            for part in (float(share.rstrip("%")) / 100, 1.0):
                side = asked(model, whole, hidden[: int(count)], part, rank)
                load = os.getloadavg()[0]
                print(f"{kind}, {part:.0%} read: {side.told(part == 1)}, load {load:.1f}")  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
