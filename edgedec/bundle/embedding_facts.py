"""Facts of a bundle whose model makes vectors or scores of whole texts, and no replies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, field
from typing import Any, Literal

from edgedec.core.quick_dataclass import dataclass
from edgedec.disk import listed_files as listed

Pooling = Literal["mean", "cls", "last"]
POOLINGS: tuple[Pooling, ...] = ("mean", "cls", "last")
QUERY, DOCUMENT = "query", "document"
"""Names of the prompts that most models have: of a question, and of a text that may answer it."""
_MOST_PROMPT = 4000


@dataclass(frozen=True, slots=True)
class EmbeddingFacts:
    """The way from the hidden states of a text to its vector, which the graph computes, and what goes in.

    - ``size``: numbers of a vector, or labels of a reranker.
    - ``pooling``: of which rows the vector is made; ``normalised``: whether its length is 1.
    - ``ranks``: whether it takes a pair, a query and a document, and answers with a score.
    - ``prompts``: texts that go in front of others, by the name of what these are; ``default``: the one that
      is taken where nothing is said.
    - ``pair``: of a reranker that reads one text, the texts before, of and behind a ``{query}`` and a
      ``{document}``, of which the outer two may have control tokens; () where the tokenizer joins the two.
    - ``token_numbers``: floats that a pass keeps for each of its tokens at most, which memory plans count.
    """

    size: int
    pooling: Pooling
    normalised: bool
    token_numbers: int
    ranks: bool = False
    prompts: Mapping[str, str] = field(default_factory=dict)
    default: str = ""
    pair: tuple[str, ...] = ()

    def prompt(self, name: str | None) -> str:
        """Return the prompt of that name, or the usual one; "" where the model has none of that name."""
        return self.prompts.get(self.default if name is None else name, "")

    def as_json(self) -> dict[str, Any]:
        """The form in a manifest."""
        return asdict(self) | {"prompts": dict(self.prompts), "pair": list(self.pair)}


def facts_from_json(value: Any) -> EmbeddingFacts:
    """Decode the facts. Raises TypeError for ones that are wrong."""
    found = listed.mapping(value)
    if missing := [name for name in ("size", "pooling", "normalised", "token_numbers") if name not in found]:
        raise TypeError(f"lacks {missing[0]}")
    if found["pooling"] not in POOLINGS:
        raise TypeError("has a pooling that does not exist")
    prompts = listed.mapping(found.get("prompts", {}))
    pair = found.get("pair", [])
    if not isinstance(pair, list) or len(pair) not in (0, 3):
        raise TypeError("has a pair that is not three texts")
    texts = [*prompts, *prompts.values(), *pair, found.get("default", "")]
    if len(prompts) > 100 or not all(isinstance(one, str) and len(one) <= _MOST_PROMPT for one in texts):
        raise TypeError("has prompts that are no short texts")
    return EmbeddingFacts(
        listed.count(found["size"]),
        found["pooling"],
        listed.flag(found["normalised"]),
        listed.count(found["token_numbers"]),
        listed.flag(found.get("ranks", False)),
        dict(prompts),
        found.get("default", ""),
        tuple(pair),
    )
