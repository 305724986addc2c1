"""A GGUF file run by llama.cpp, behind the same seam as EdgeDec's own kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from edgedec.backends.cache_forward import CacheForward
from edgedec.backends.head_rows import head_rows
from edgedec.backends.llama_cpp.branches import branches, sequences_of
from edgedec.core.errors import UnsupportedError
from edgedec.core.forward import Capabilities, Forward
from edgedec.core.ledger import Ledger
from edgedec.core.model_spec import ModelSpec
from edgedec.core.rows import LAST_ROW, HeadRows, Parents, Rows
from edgedec.memory import CacheBook

if TYPE_CHECKING:
    from edgedec.backends.llama_cpp.binding import LlamaCpp

MAX_PASS_TOKENS = 256
MOST_BRANCHES = 32
"""Leaves of a tree. llama.cpp keeps a row of logits per sequence, and slows down with their number."""


class LlamaCppForward(CacheForward, Forward):
    """The ``Forward`` over a ``LlamaCpp``. Between passes all resident tokens are sequence 0.

    Not exact: llama.cpp adds up in another order in passes of another size. Where the cache cannot forget
    (recurrent models) there are no trees, and a rewind makes the next pass compute the tokens that stay
    again: right, and slow.
    """

    def __init__(
        self, runner: LlamaCpp, spec: ModelSpec, capacity: int, ledger: Ledger | None = None
    ) -> None:
        caps = Capabilities(max_pass=min(MAX_PASS_TOKENS, capacity), trees=runner.rewinds, exact=False)
        super().__init__(spec, caps, CacheBook(capacity), ledger)
        self._runner = runner
        self._members: list[list[int]] = []
        """Sequences of the last pass's tokens; empty when it is settled."""
        self._tokens: list[int] = []
        """The resident tokens; of a model with trees, none."""
        self._behind = False
        """Whether ``_tokens`` have to be computed again."""

    def extend(self, tokens: Sequence[int], *, parents: Parents = None, rows: Rows = LAST_ROW) -> HeadRows:
        """See ``Forward.extend``. Raises UnsupportedError for a tree of more than 32 leaves, BackendError
        when llama.cpp fails and BadFileError when the logits are not numbers; nothing is appended then.
        """
        planned = self._placed(tokens, parents, rows)
        chosen = rows.resolve(len(tokens))
        members = self._checked_members(planned.parents, planned.chain)
        if self._behind:
            self._catch_up()
        with self._undone_on_errors(planned.start):
            for sequence in range(1, branches(members)):
                self._runner.copy(0, sequence)
            logits = self._runner.decode(tokens, planned.positions, members, chosen)
            result = head_rows(logits, self.spec.head_k, full=rows.full, temperature=rows.temperature)
        self._book.append(planned)
        self._members = members
        if not self.caps.trees:
            self._tokens += tokens
        return result

    def rewind(self, length: int) -> None:
        """See ``Forward.rewind``."""
        before = self.length
        self._book.rewind(length)
        into = length - (before - len(self._members))
        self._settle(self._members[into - 1][0] if self._members and into > 0 else 0)

    def keep_path(self, nodes: Sequence[int]) -> None:
        """See ``Forward.keep_path``. Moves nothing: the path's cells become sequence 0."""
        self._book.keep(nodes)
        self._settle(self._members[nodes[-1]][0] if len(nodes) else 0)

    def nbytes(self) -> dict[str, int]:
        """As llama.cpp reports it. ``weights``: mapped, and again where it repacks them; ``kv_cache``: of a
        whole number of 256 tokens; ``scratch``: for passes and logits.
        """
        return self._runner.nbytes()

    def _checked_members(self, parents: Sequence[int], chain: bool) -> list[list[int]]:
        if not chain and not self.caps.trees:
            raise UnsupportedError(f"{self.spec.name} cannot run a tree of tokens: its state is recurrent")
        members = sequences_of(parents)
        if branches(members) > MOST_BRANCHES:
            raise UnsupportedError(
                f"llama.cpp runs trees of {MOST_BRANCHES} branches, not {branches(members)}",
                hint="draft fewer tokens",
            )
        return members

    def _settle(self, sequence: int) -> None:
        """Let the resident tokens, those of ``sequence``, be sequence 0, and the only ones."""
        self._members = []
        self._runner.keep(sequence)
        if sequence:
            self._runner.copy(sequence, 0)
            self._runner.keep(0)
        del self._tokens[self.length :]
        if not self.length:
            self._runner.clear()
            self._behind = False
        elif not self._runner.cut(0, self.length):
            self._behind = True

    def _catch_up(self) -> None:
        self._runner.clear()
        for start in range(0, len(self._tokens), self.caps.max_pass):
            part = self._tokens[start : start + self.caps.max_pass]
            self._runner.decode(part, range(start, start + len(part)), [[0]] * len(part), [])
        self._behind = False

    @contextmanager
    def _undone_on_errors(self, length: int) -> Iterator[None]:
        """A pass that fails, or is interrupted, leaves the cache as it was."""
        try:
            yield
        except BaseException:
            self._runner.keep(0)
            self._behind = not self._runner.cut(0, length)
            raise
