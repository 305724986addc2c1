"""Forms in the native engine beside llguidance: random schemas, and the same tokens followed in both."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
from llguidance import LLTokenizer

from edgedec.core.errors import EdgeDecError
from edgedec.grammar.matcher import GrammarConstraint
from edgedec.grammar.spec import GrammarSpec
from edgedec.native import probe

BYTES = [bytes([byte]) for byte in range(256)]
_LONGER = (
    '{" ": |":|, "|","|"}|"]|[]|{}|}]|name|na|me|me"|ab|a"|"a|true|false|null|tr|ue|12|123|0.|.5|-1|1e|  | {|'
    ' [|\n  |\n|\n    |\\n|\\u|\\u00|001|colour"|col|our|red|"red"|green|kind|": "|": [|": {|": 1|],|},|'
    '"b": |value|val|ue"|next|": null}|é'
)
LONGER = [*(piece.encode() for piece in _LONGER.split("|")), b"\xe2\x82", b"\x82\xac", b"\xf0\x9f\x98"]
KEYS = ("name", "a", "ab", "b", "colour", "kind", "value", "next", "é", "n\nx", "", " ", "a/b")
CLOSING = (b'"', b"}", b"]", b'"}', b'"]', b"}]", b":", b",", b'": ')


class Vocabulary:
    """Tokens of these bytes and an end, as ``LLTokenizer`` reads them; text becomes the longest ones."""

    is_tokenizer_wrapper = True
    bos_token_id = None

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self.pieces = [*pieces, b""]
        self.end = self.eos_token_id = len(pieces)
        self.tokens = [*pieces, b"<end>"]
        self.special_token_ids = [self.end]
        self._ids = {piece: at for at, piece in reversed([*enumerate(pieces)])}
        self._longest = max(map(len, pieces))

    def __call__(self, text: str | bytes) -> list[int]:
        data = text.encode() if isinstance(text, str) else text
        found: list[int] = []
        while data:
            size = next(n for n in range(self._longest, 0, -1) if data[:n] in self._ids)
            found.append(self._ids[data[:size]])
            data = data[size:]
        return found

    def native(self, tokens: Sequence[int] = (), **request: Any) -> dict[str, Any]:
        """How the native engine takes tokens in a form."""
        pieces = [[*piece] for piece in self.pieces]
        return probe.grammar(pieces=pieces, silent=[], ends=[self.end], tokens=[*tokens], **request)


def bytes_only() -> Vocabulary:
    return Vocabulary(BYTES)


def takes(form: dict[str, Any], text: bytes) -> bool | str:
    """Whether a text has a form in the native engine; the message of an error."""
    found = bytes_only().native([*text], **form)
    if "message" in found:
        return str(found["message"])
    return found["refused_at"] == -1 and bool(found["steps"][-1]["accepts"])


def python(schema: str, vocabulary: Vocabulary) -> GrammarConstraint | None:
    """The schema as Python keeps to it; None where it is refused."""
    try:
        made = LLTokenizer(vocabulary, eos_token=[vocabulary.end], slices=[])  # type: ignore[arg-type]
        return GrammarConstraint(GrammarSpec.json_schema(schema), made)
    except EdgeDecError:
        return None


def walk(one: GrammarConstraint, vocabulary: Vocabulary, rng: random.Random, most: int = 50) -> Any:
    """Tokens drawn at random under a constraint, and what it says before each of them."""
    tokens: list[int] = []
    steps: list[dict[str, Any]] = []
    while len(tokens) < most:
        finished, forced = one.finished, [*one.forced()]
        mask = np.flatnonzero(np.unpackbits(one.bits(), bitorder="little")).tolist()
        steps.append({"accepts": one.accepts, "finished": finished, "forced": forced, "mask": mask})
        may = [token for token in mask if token != vocabulary.end]
        if finished or not may:
            break
        closing = [token for token in may if vocabulary.pieces[token] in CLOSING]
        longer = [token for token in may if token >= len(BYTES)]
        plain = [token for token in may if 32 <= token < 127]
        hurry = len(tokens) > most // 2
        tokens.append(rng.choice((closing if hurry else rng.choice((longer, plain, may))) or may))
        assert one.advance(tokens[-1])
    return tokens, steps


def random_schema(rng: random.Random) -> dict[str, Any]:
    schema = _schema(rng, 3)
    if '"$ref"' in json.dumps(schema):
        schema["$defs"] = {name: _schema(rng, 2) for name in "pq"}
    return schema


def _schema(rng: random.Random, depth: int) -> dict[str, Any]:
    kind = rng.random()
    if depth <= 0 or kind < 0.35:
        return dict(rng.choice(_LEAVES))
    if kind < 0.7:
        return _object(rng, depth)
    if kind < 0.82:
        return _array(rng, depth)
    if kind < 0.96:
        keyword = rng.choice(("anyOf", "anyOf", "allOf", "oneOf"))
        return {keyword: [_schema(rng, depth - 1) for _ in range(rng.randint(1, 3))]}
    return {"$ref": f"#/$defs/{rng.choice('pq')}"}


def _object(rng: random.Random, depth: int) -> dict[str, Any]:
    keys = rng.sample(KEYS, rng.randint(0, 4))
    found: dict[str, Any] = {
        "type": "object",
        "properties": {key: _schema(rng, depth - 1) for key in keys},
        "required": [key for key in keys if rng.random() < 0.6] + rng.sample(KEYS, rng.random() < 0.1),
    }
    if rng.random() < 0.75:
        found["additionalProperties"] = False if rng.random() < 0.8 else _schema(rng, depth - 1)
    if rng.random() < 0.1:
        found["anyOf"] = [{"required": [rng.choice(KEYS)]}, {"properties": {rng.choice(KEYS): {}}}]
    return found


def _array(rng: random.Random, depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "array", "minItems": rng.randint(0, 2)}
    if rng.random() < 0.8:
        found["items"] = _schema(rng, depth - 1)
    if rng.random() < 0.3:
        found["prefixItems"] = [_schema(rng, depth - 1) for _ in range(rng.randint(1, 2))]
    if rng.random() < 0.3:
        found["maxItems"] = found["minItems"] + rng.randint(0, 2)
    return found


_LEAVES: tuple[dict[str, Any], ...] = (
    {},
    {"type": "string"},
    {"type": "string", "minLength": 1, "maxLength": 3},
    {"type": "integer"},
    {"type": "integer", "minimum": -17, "maximum": 1203},
    {"type": "integer", "exclusiveMinimum": 41},
    {"type": "integer", "minimum": -300, "exclusiveMaximum": -7},
    {"type": "number"},
    {"type": "boolean"},
    {"type": "null"},
    {"type": ["string", "null"], "maxLength": 2},
    {"type": ["integer", "number", "null"]},
    {"type": "object"},
    {"type": "array"},
    {"enum": ["red", "green", 12, -3, 1.5, None, True]},
    {"enum": ["a\nb", [1, "x"], {"a": 1, "é": "\x7f"}]},
    {"const": 'é"\\'},
    {"type": "string", "enum": ["red", "rest", 3]},
)
