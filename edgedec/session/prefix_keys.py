"""Names of saved prefixes: each begins with a hash over all tokens before it, so what is alike stands once.

A page has 256 tokens, an end the tokens behind the last whole page before it, and what a cache needs to go on
there. Nothing but the tokens, the model, its cache and the version of EdgeDec decides a name.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Collection, Sequence

from edgedec.core.quick_dataclass import dataclass
from edgedec.disk.digest import sha256_hex

PAGE_TOKENS = 256
"""Tokens of a page: few files for a long prompt, and few tokens that are read again behind the last one."""
NAME = re.compile(r"[0-9a-f]{64}(-[0-9]{3}-[0-9a-f]{16})?")
_END = re.compile(r"([0-9a-f]{64})-([0-9]{3})-[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class Stretch:
    """The tokens [first, end) of a prefix in the file ``name``. ``closes``: it is an end, no page."""

    name: str
    first: int
    end: int
    closes: bool = False


def root_of(model: str, layout: str, edgedec: str) -> str:
    """Return the hash that all names of a model with one kind of cache begin from."""
    return sha256_hex(json.dumps([model, layout, edgedec, PAGE_TOKENS]).encode())


class PrefixKeys:
    """The names of the beginnings of ``tokens``, of a model with the hash ``root``."""

    def __init__(self, root: str, tokens: Sequence[int]) -> None:
        self._tokens = array("i", tokens)
        chain, keys = root, [root]
        for first in range(0, len(tokens) - PAGE_TOKENS + 1, PAGE_TOKENS):
            chain = self._hash(chain, first, first + PAGE_TOKENS)
            keys.append(chain)
        self._keys = keys

    def pages(self, length: int) -> list[Stretch]:
        """Return the whole pages of the first ``length`` tokens."""
        count = min(length // PAGE_TOKENS, len(self._keys) - 1)
        return [
            Stretch(self._keys[at + 1], at * PAGE_TOKENS, (at + 1) * PAGE_TOKENS) for at in range(count)
        ]

    def end(self, length: int) -> Stretch:
        """Return the end behind ``length`` tokens."""
        pages = length // PAGE_TOKENS
        first = pages * PAGE_TOKENS
        key = self._keys[pages]
        name = f"{key}-{length - first:03}-{self._hash(key, first, length)[:16]}"
        return Stretch(name, first, length, closes=True)

    def best(self, names: Collection[str], *, needs_end: bool) -> list[Stretch]:
        """Return the stretches of the longest beginning that ``names`` has, but for the last token.

        ``needs_end``: pages alone are of no use. Empty where there is none.
        """
        pages = self.pages(len(self._tokens) - 1)
        held = next((at for at, page in enumerate(pages) if page.name not in names), len(pages))
        ends = dict[str, list[int]]()
        for name in names:
            if found := _END.fullmatch(name):
                ends.setdefault(found[1], []).append(int(found[2]))
        for count in range(held, -1, -1):
            for rest in sorted(ends.get(self._keys[count], ()), reverse=True):
                length = count * PAGE_TOKENS + rest
                if length < len(self._tokens) and (end := self.end(length)).name in names:
                    return [*pages[:count], end]
            if not needs_end:
                break
        return [] if needs_end else pages[:held]

    def _hash(self, before: str, first: int, end: int) -> str:
        return sha256_hex(bytes.fromhex(before) + self._tokens[first:end].tobytes())
