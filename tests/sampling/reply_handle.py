"""One reply of the core's decoding loop, asked for its verdict on trees and rows that a test made up."""

from __future__ import annotations

from array import array
from ctypes import byref

from edgedec.core.model_spec import ModelSpec
from edgedec.core.rows import HeadRows
from edgedec.core.tree import DraftTree
from edgedec.core_lib.engine import CoreEngine, ReplyStart, Verified
from edgedec.core_lib.grammar import ReplyGrammar
from edgedec.core_lib.library import function
from edgedec.core_lib.params import head_struct
from edgedec.sampling import DrawParams


class ReplyHandle(CoreEngine):
    """A reply without drafters, passes and a cache; drafts have at most 64 tokens."""

    def __init__(
        self, params: DrawParams, spec: ModelSpec, start: ReplyStart, grammar: ReplyGrammar | None = None
    ) -> None:
        super().__init__(spec, limit=64)
        self.begin(params, start, grammar)

    def verdict_on(self, tree: DraftTree, head: HeadRows, position: int) -> Verified:
        """The verdict on ``tree``, whose first token will have ``position``; see ``CoreEngine.verify``."""
        tokens, parents = array("i", tree.tokens).tobytes(), array("i", tree.parents).tobytes()
        rows = head_struct(head)
        count = function("engine_verdict")(
            self._handle, byref(rows), len(tree.tokens), tokens, parents, position
        )
        return self._verdict(count)

    def commit(self, token: int, bound: float | None = None) -> None:
        """Note a committed token, and mirostat's state behind it."""
        function("engine_commit")(self._handle, token, bound or 0.0)

    @property
    def drawn_bytes(self) -> int:
        """Most bytes that the lists of its draws have held."""
        return int(function("engine_drawn_bytes")(self._handle))
