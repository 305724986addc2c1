"""Damage to bytes, JSON and chat templates. Everything is drawn from the generator that is handed in."""

from __future__ import annotations

import json
import random
import re
from typing import Any

INTERESTING = (
    0,
    1,
    2,
    7,
    8,
    31,
    32,
    63,
    64,
    127,
    128,
    255,
    256,
    2**15,
    2**16 - 1,
    2**16,
    2**20,
    2**24,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**32,
    2**40,
    2**60,
    2**62,
    2**63 - 1,
    2**63,
    2**64 - 32,
    2**64 - 1,
)
"""Edges of the integer types, and sizes whose products wrap around."""
_LONG, _DEEP = 200_000, 100_000
_RAW = (
    "NaN",
    "-Infinity",
    "1e999",
    "-1e-999",
    "9" * 5000,
    "0" * 20 + "1",
    '"\\ud800"',
    "0x10",
    "tru",
    '{"a": 1, "a": [2]}',
    "[" * 500,
    "",
    "\x00",
)
"""What is no JSON, or only to some."""


def integer(rng: random.Random, bits: int = 64, *, signed: bool = False) -> int:
    """An edge, or anything, that fits ``bits``."""
    value = rng.choice(INTERESTING) if rng.random() < 0.8 else rng.getrandbits(bits)
    value = (value + rng.choice((0, 0, 0, -1, 1))) % 2**bits
    return value - 2**bits if signed and value >= 2 ** (bits - 1) else value


def mutate_bytes(data: bytes, rng: random.Random) -> bytes:
    """Flip, overwrite, cut, repeat, move or insert a piece."""
    if not data:
        return rng.randbytes(rng.randrange(1, 64))
    at, size = rng.randrange(len(data)), rng.choice((1, 1, 2, 4, 8, rng.randrange(1, 200)))
    piece = data[at : at + size]
    other = data[rng.randrange(len(data)) :][:size]
    return rng.choice(
        (
            lambda: data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :],
            lambda: data[:at] + rng.randbytes(len(piece)) + data[at + len(piece) :],
            lambda: data[:at] + integer(rng).to_bytes(8, "little")[: len(piece)] + data[at + len(piece) :],
            lambda: data[:at],
            lambda: data[:at] + data[at + size :],
            lambda: data[:at] + piece * rng.choice((2, 3, 50)) + data[at + size :],
            lambda: data[:at] + other + data[at + len(other) :],
            lambda: data[:at] + rng.randbytes(size) + data[at:],
        )
    )()


def mutate_json(data: bytes, rng: random.Random) -> bytes:
    """Replace, remove, rename, repeat or swap values of a document; or damage its text."""
    if rng.random() < 0.2 or len(data) > 2 * _LONG:
        return mutate_bytes(data, rng)
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return mutate_bytes(data, rng)
    parent, key = _place(document, rng)
    if parent is None:
        return json.dumps(value(rng)).encode("utf-8", "surrogatepass")
    action = rng.choice(
        ("replace", "replace", "replace", "remove", "rename", "repeat", "swap", "nest", "raw", "again")
    )
    if action == "remove":
        del parent[key]
    elif action == "rename" and isinstance(parent, dict):
        parent[rng.choice((f"{key}x", "", "../x", "__class__", "\ud800"))] = parent.pop(key)
    elif action == "repeat" and isinstance(parent, list):
        parent[key:key] = [parent[key]] * rng.choice((1, 2, 1000))
    elif action == "swap":
        other, place = _place(document, rng)
        parent[key], other[place] = other[place], parent[key]
    elif action in ("nest", "raw"):
        depth = rng.choice((2, 100, 900, _DEEP))
        raw = rng.choice(_RAW) if action == "raw" else "[" * depth + "]" * depth
        parent[key] = "@raw@"
        return json.dumps(document).replace('"@raw@"', raw).encode()
    elif action == "again" and isinstance(parent, dict):
        parent["@again@"] = value(rng)  # the same key twice
        return json.dumps(document).replace('"@again@"', json.dumps(key)).encode("utf-8", "surrogatepass")
    else:
        parent[key] = value(rng)
    try:
        return json.dumps(document, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")
    except (ValueError, RecursionError):  # a value swapped with what holds it
        return mutate_bytes(data, rng)


def value(rng: random.Random) -> Any:
    """Any JSON value that a reader may not expect."""
    texts = (
        "",
        "x",
        "0",
        "../../etc/passwd",
        "/etc/passwd",
        "a\nb\x1b[31m",
        "\ud800",
        "\x00",
        "x" * _LONG,
        "é" * 50,
    )
    return rng.choice(
        (
            lambda: rng.choice((None, True, False, [], {}, [[]], {"": {}}, [None], ["x"] * 2000)),
            lambda: rng.choice(
                (0.0, -0.0, -1, 1.5, 1e308, -1e308, float("nan"), float("inf"), -float("inf"))
            ),
            lambda: integer(rng) * rng.choice((1, 1, -1, 2**70)),
            lambda: rng.choice(texts),
            lambda: rng.choice(
                ("weights.bin", "manifest.json", "bpe", "spm", "BPE", "Unigram", "WordPiece", "Sequence")
            ),
            lambda: "".join(chr(rng.randrange(1, 0xD7FF)) for _ in range(rng.randrange(20))),
        )
    )()


def _place(document: Any, rng: random.Random) -> tuple[Any, Any]:
    """A random (container, key); shallow ones are as likely as the many deep ones. (None, None): a scalar."""
    parent, key, node = None, None, document
    while isinstance(node, dict | list) and node and (parent is None or rng.random() < 0.7):
        parent, key = node, rng.choice(list(node)) if isinstance(node, dict) else rng.randrange(len(node))
        node = parent[key]
    return parent, key


_SNIPPETS = (
    "{% for i in range(100000000) %}x{% endfor %}",
    "{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}",
    "{{ 'x' * 1000000000 }}",
    "{{ 10 ** 100000000 }}",
    "{{ [0] * 1000000000 }}",
    "{{ 'x'.ljust(999999999) }}",
    "{{ '%999999999d' % 1 }}",
    "{{ '{:>999999999}'.format(1) }}",
    "{{ messages.__class__.__mro__ }}",
    "{{ ''.__class__.__base__.__subclasses__() }}",
    "{% include 'x' %}",
    "{% import '/etc/passwd' as p %}",
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "{% set x = x ~ x %}",
    "{{ raise_exception('a\nb') }}",
    "{{ messages[99999999].content }}",
    "{{ undefined.attribute }}",
    "{{ 1 / 0 }}",
    "{{ 1 << 9999999999 }}",
    "{{ messages | tojson | replace('a', 'aaaaaaaaaaaaaaaaaa') }}",
    "{{ range(99999999) | list | join('x') }}",
    "{% block b %}{{ self.b() }}{% endblock %}",
    "{{ strftime_now('%') }}",
    "{{ strftime_now(5) }}",
    "{%- if",
    "{#",
    "%}",
    "{{ messages | map(attribute='content') | sum }}",
    "{{ messages | batch(0) | list }}",
    "{{ lipsum(n=99999) }}",
    "{{ messages | sort(attribute='x') }}",
    "{{ 'a' | center(99999999) }}",
    "{{ cycler() }}",
    "{{ 'x' | indent(9999999) }}",
    "{% set n = namespace(x='ab') %}{% for i in range(60) %}{% set n.x = n.x + n.x %}{% endfor %}{{ n.x }}",
    "{{ messages | groupby('role') }}",
    "{{ joiner('x' * 99999)() }}",
    "{% raw %}",
    "{% generation %}",
    "{{ (1).__format__('999999999') }}",
)
_NESTS = (
    ("{% if 1 %}", "{% endif %}"),
    ("{{ (", ") }}"),
    ("(", ")"),
    ("[", "]"),
    ("{{ not ", " 1 }}"),
    ("-", ""),
    ("{{ 1 +", "1 }}"),
)


def mutate_template(data: bytes, rng: random.Random) -> bytes:
    """Insert hostile statements, repeat, drop and swap tokens, nest deeply; or damage the text."""
    if rng.random() < 0.2 or len(data) > _LONG:
        return mutate_bytes(data, rng)
    parts = re.findall(r"\{[%{#]-?|-?[%}#]\}|\w+|\s+|.", data.decode("utf-8", "replace"), re.DOTALL) or [""]
    at, other = rng.randrange(len(parts)), rng.randrange(len(parts))
    action = rng.choice(("insert", "insert", "insert", "drop", "swap", "repeat", "nest", "token", "number"))
    if action == "insert":
        parts.insert(at, rng.choice(_SNIPPETS))
    elif action == "drop":
        del parts[at : at + rng.choice((1, 2, 10))]
    elif action == "swap":
        parts[at], parts[other] = parts[other], parts[at]
    elif action == "repeat":
        parts[at:at] = parts[min(at, other) : max(at, other)] * rng.choice((1, 5, 200))
    elif action == "nest":
        left, right = rng.choice(_NESTS)
        depth = rng.choice((5, 50, 500, 5000, 50_000))
        parts[at] = left * depth + parts[at] + right * depth
    elif action == "token":
        parts[at] = rng.choice(
            (*parts, "loop", "messages", "none", "|", "~", ".", "'", '"', "\x00", "\ufffd")
        )
    else:
        parts[at] = str(integer(rng))
    return "".join(parts).encode("utf-8", "replace")
