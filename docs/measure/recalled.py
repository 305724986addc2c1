"""Facts found in a long chat: ``python -P -m docs.measure.recalled MODEL [TOKENS] [FACTS] [KIND,...]``.

Facts stand in the guide, which one chat reads; then it is asked for each of them, one after the other. Each
KIND of ``--kv`` has a chat of its own.
"""

from __future__ import annotations

import os
import sys
import time

import edgedec
from docs.measure.kept import MOST_TOKENS, SYSTEM
from docs.measure.long_texts import Fact, cut, facts, sown, text, tokenizer_of
from edgedec.core.cache_config import KvType

TOKENS, FACTS, KINDS = "11500", "20", "fp16,int8"
TURN_TOKENS = 100
"""Most tokens of a question and its reply; those of a fact are fewer."""


def found(name: str, kv: KvType, whole: str, hidden: list[Fact], context: int) -> int:
    """Count the facts that a chat finds."""
    with edgedec.open(name, kv=kv, context=context, draft="off", temperature=0) as model:
        chat, count = model.chat(system=SYSTEM, max_tokens=MOST_TOKENS), 0
        for number, fact in enumerate(hidden):
            question = fact.same if number else f"{whole}\n\n{fact.same}"
            count += fact.in_reply(chat.reply(question).read())
        return count


def main(name: str, tokens: str = TOKENS, count: str = FACTS, kinds: str = KINDS) -> None:
    hidden = facts("prose")[: int(count)]
    whole = sown(cut(text("prose"), int(tokens), tokenizer_of(name)), "prose", hidden)
    context = int(tokens) + (len(hidden) + 1) * TURN_TOKENS
    choices: dict[str, KvType] = {"fp16": "fp16", "int8": "int8"}
    for kind in kinds.split(","):
        begun = time.perf_counter()
        right = found(name, choices[kind], whole, hidden, context)
        seconds, load = time.perf_counter() - begun, os.getloadavg()[0]
        told = f"{kind}: {right} of {len(hidden)} facts behind {tokens} tokens"
        print(f"{told}, {seconds:.1f} s, load {load:.1f}", flush=True)  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
