"""Questions about long texts: ``python -P -m docs.measure.long_questions MODEL TOKENS FILE [KIND,...]``.

``bench drafts --input FILE`` asks each in three turns, ``bench speed --input FILE`` reads the first. A
text has so many tokens of the model, and its questions come behind it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from docs.measure.long_texts import cut, facts, sown, text, tokenizer_of

KINDS = "summarization,code,rag"
FACTS = 3
ABOUT = {"summarization": "prose", "code": "code", "rag": "documents"}
"""The text of each kind."""
TURNS = {
    "summarization": (
        "Summarise this guide in eight sentences.",
        "Quote the three sentences of the guide that matter most to a beginner.",
        "Which commands does the guide name? List ten of them with what they do.",
    ),
    "code": (
        "Write the last whole function above once more, with all type annotations and the same comments.",
        "Write it again with a docstring that says what each argument is.",
        "Explain in five sentences what it does.",
    ),
}


def turns(kind: str, whole: str) -> list[str]:
    """Return the turns of a question; those of "rag" ask for facts that are hidden in the text."""
    asked: tuple[str, ...] = TURNS.get(kind, ())
    if kind == "rag":
        hidden = facts("prose")[:FACTS]
        whole = sown(whole, "prose", hidden)
        asked = tuple(f"{fact.same} Quote the sentence that says so." for fact in hidden)
    return [f"{whole}\n\n{asked[0]}", *asked[1:]]


def lines(model: str, tokens: int, kinds: str) -> Iterator[str]:
    tokenizer = tokenizer_of(model)
    for number, kind in enumerate(kinds.split(",")):
        whole = cut(text(ABOUT[kind]), tokens, tokenizer)
        yield json.dumps({"question_id": number, "category": kind, "turns": turns(kind, whole)})


def main(model: str, tokens: str, file: str, kinds: str = KINDS) -> None:
    found = [f"{line}\n" for line in lines(model, int(tokens), kinds)]
    Path(file).write_text("".join(found), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
