"""Drafting with a smaller model, the draft model.

Its cache follows the committed tokens lazily: a query feeds the missing tokens and forgets the rejected ones.
Every further token of a draft costs a pass of the draft model. The runners-up of each position come with it,
and a close runner-up shares the next pass (a tree of two), so that its continuation is known too. (To follow
up to four nodes of any branch in a pass was tried: tokens of the other branches are computed again, which
doubles the tokens of a pass and gains 1 to 3 %.) Where to stop: EAGLE-2 (Li et al. 2024) and DySpec (Xiong et
al. 2024) keep the most probable paths; AdaEDL (Agrawal et al. 2024) ends a draft by the entropy of the last
step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from edgedec.core.forward import Forward
from edgedec.core.rows import ALL_ROWS, LAST_ROW, HeadRows, Rows
from edgedec.core.tree import EMPTY, ROOT, DraftTree
from edgedec.core_lib.choices import Choices, Translation
from edgedec.draft.bridge import Bridge
from edgedec.draft.drafter import Drafter, DrafterCapabilities
from edgedec.draft.tree_builder import TreeBuilder
from edgedec.draft.trimmed import TrimmedHead
from edgedec.draft.turns import ALONE, Turns
from edgedec.sampling import DrawParams

_MOST_READ_TOKENS = 128
"""Most tokens that are read for a draft where a text goes on."""
_FIRST_TOKENS = 48
"""Tokens at the end of a new text that drafts read, as if it began there. Reading takes time from each reply,
and a short one never repays that of its whole prompt; a longer one makes a context of its own, and lookup
covers the distant past.
"""
_END_TOKENS = 64
"""Tokens at the end of a text that drafts go on from where the cache is full."""
_LEAST_REACH = 0.02
"""Paths less probable than this are never followed."""
_KEPT_REACH = 0.6
"""Share of a path's probability that its next token is expected to keep. No pass is made for less than a
level must gain. Tokens that turn out below that are proposed all the same: only verifying them costs, which
the planner weighs.
"""
_UNSURE_NATS = 4.0
"""Entropy above which nothing is drafted; AdaEDL's bound on acceptance, 1 - sqrt(0.2 H), is 0.1 there."""
_NO_ROWS = Rows(indices=())
_SIBLINGS = 2
"""Most nodes that share a pass."""
_CLOSE = 0.5
"""A runner-up at least this probable beside the first shares its pass, which costs about a third more."""


class ModelDrafter(Drafter):
    """Drafts with ``forward``, which reads and writes the target's tokens through ``bridge``.

    With ``trimmed`` its head computes the kept ids only, as long as the text consists of them. ``turns``:
    those on a model that drafts for several conversations.
    """

    caps = DrafterCapabilities(looks_ahead=True)
    pretrained = True

    def __init__(
        self,
        name: str,
        forward: Forward,
        bridge: Bridge,
        trimmed: TrimmedHead | None = None,
        turns: Turns = ALONE,
    ) -> None:
        self.name = name
        self._forward = forward
        self._bridge = bridge
        self._trimmed = trimmed
        self._turns = turns
        self._params = DrawParams()
        self._last_row, self._all_rows = LAST_ROW, ALL_ROWS
        """The rows of passes that draft: over the kept ids, if the head is trimmed now."""
        self._position = 0
        self._cached: list[int] = []
        self._translation = Translation(bridge.to_target_ids)
        self._choices = Choices(self._params, translation=self._translation)
        self._start: int | None = None
        """Tokens of the text before the reply; None: not counted yet."""
        self._skipped = 0
        """Tokens of the text before the first cached one."""
        held = forward.nbytes()
        self._weight_bytes = held.get("weights", 0)
        self._slot_bytes = held.get("kv_cache", 0) // max(forward.capacity, 1)
        # Between two passes no cache of the processor knows them: a step reads them without detours.
        self._table = forward.spec.table_bytes
        self._capacity, self._trees = forward.capacity, forward.caps.trees
        self._bytes_read = self._table_bytes = 0.0
        self._passes = 0
        forward.rewind(0)

    def sampled(self, params: DrawParams) -> None:
        """Draw as the target does from now on."""
        self._params = params
        self._choices = Choices(params, translation=self._translation)

    def begin(self, tokens: Sequence[int], kept: int) -> None:
        self._bridge.begin(tokens, kept)
        self._position = len(tokens)
        self._start = None
        if self._trimmed:
            self._trimmed.begin()

    def commit(self, tokens: Sequence[int]) -> None:
        self._bridge.commit(tokens)
        self._position += len(tokens)

    def propose(self, limit: int, floor: float = 0.0) -> DraftTree:
        ids = self._bridge.read()
        if self._start is None:
            self._start = len(ids)
        if not ids or limit < 1:
            return EMPTY
        if self._trimmed:
            self._trim(self._trimmed, ids)
        with self._turns.drafting():
            head = self._catch_up(ids, self._last_row, _FIRST_TOKENS)
            if self._forward.caps.most_undone:
                self._forward.rewind(self._forward.length)  # the checkpoint that the next query goes back to
            tree = self._tree(head, limit, max(floor / _KEPT_REACH, _LEAST_REACH))
        return self._bridge.in_target_ids(tree).best(limit, min(floor, _LEAST_REACH), self.name)

    def ahead(self, tokens: Sequence[int], limit: int) -> list[int]:
        """Greedily, a chain. Reads the end of the text anew, and with the full head: drafts of ``propose``
        also depend on earlier queries, since only the end of a text that grew much is read.
        """
        self.begin(tokens, 0)
        self._forward.rewind(0)
        self._cached, self._skipped = [], 0
        if not (ids := self._bridge.read()):
            return []
        head, tree, node = self._catch_up(ids, LAST_ROW, _MOST_READ_TOKENS), TreeBuilder(), ROOT
        while True:
            node = tree.add(token := int(head.ids[0, 0]), node, 1.0)
            full = len(self._cached) == self._capacity
            if len(tree.tokens) == limit or full or self._bridge.ends(token):
                return self._bridge.in_target_ids(tree).tokens[:limit]
            head = self._feed([token], LAST_ROW)

    def nbytes(self) -> int:
        """Weights (mapped, and shared with others who map them), the cache as reserved, and bookkeeping."""
        own = self._bridge.nbytes() + 8 * len(self._cached)
        return own + sum(self._forward.nbytes().values()) + (self._trimmed.nbytes() if self._trimmed else 0)

    @property
    def bytes_read(self) -> int:
        """All weights that a pass reads, and the cache as far as it is filled."""
        return int(self._bytes_read)

    @property
    def passes(self) -> int:
        """See ``Drafter.passes``."""
        return self._passes

    @property
    def table_bytes(self) -> int:
        """See ``Drafter.table_bytes``: those rows of a trimmed head's table that passes do not read."""
        return int(self._table_bytes)

    def _trim(self, trimmed: TrimmedHead, ids: list[int]) -> None:
        trimmed.follow(ids)
        if trimmed.keep is not self._last_row.keep:
            self._last_row, self._all_rows = (
                replace(rows, keep=trimmed.keep) for rows in (LAST_ROW, ALL_ROWS)
            )

    def _catch_up(self, ids: list[int], rows: Rows, end: int) -> HeadRows:
        """Make the cache hold ``ids``, or their end; returns ``rows`` of the last pass, always fed.

        Feeds at most ``_MOST_READ_TOKENS`` tokens, in passes of the model's own length. Where more are
        missing, or more than were read and than ``end``, and where hardly any of those read remain, it starts
        anew with the last ``end`` tokens; where the cache is full, with ``_END_TOKENS``.
        """
        most = min(max(self._capacity // 2, 1), _MOST_READ_TOKENS)
        end = min(most, end)
        known = ids[self._skipped :]
        same = min(common_length(self._cached, known), self._forward.length, len(known) - 1)
        same = self._forward.reachable(max(same, 0))
        gone_back = same == 0 or (self._skipped and len(known) < end // 2)
        anew = gone_back or len(known) - same > min(max(same, end), most)
        if anew or len(known) > self._capacity:
            self._skipped = max(len(ids) - (end if anew else min(most, _END_TOKENS)), 0)
            known, same = ids[self._skipped :], 0
        self._forward.rewind(same)
        del self._cached[same:]
        piece = self._forward.caps.max_pass
        while len(known) - same > piece:
            self._feed(known[same : same + piece], _NO_ROWS)
            same += piece
        return self._feed(known[same:], rows)

    def _feed(self, tokens: Sequence[int], rows: Rows) -> HeadRows:
        head = self._pass(tokens, None, rows)
        self._cached += tokens
        return head

    def _pass(self, tokens: Sequence[int], parents: Sequence[int] | None, rows: Rows) -> HeadRows:
        length = self._forward.length
        with self._turns.passing():
            head = self._forward.extend(tokens, parents=parents, rows=rows)
        saved = self._trimmed.saved if self._trimmed and rows.keep is not None else 0.0
        streamed = (1.0 - saved) * self._weight_bytes - self._table
        self._passes += 1
        self._bytes_read += self._turns.share * streamed + self._slot_bytes * length
        self._table_bytes += self._table or saved * self._weight_bytes
        return head

    def _tree(self, head: HeadRows, limit: int, floor: float) -> TreeBuilder:
        """Follow the most probable path, until nothing that follows can be among the ``limit`` best."""
        tree = TreeBuilder()
        if self._params.adjusts:
            reply_tokens = self._skipped + len(self._cached) - (self._start or 0)
            said = min(max(reply_tokens, 0), len(self._cached))
            self._choices = Choices(self._params, self._cached, said=said, translation=self._translation)
        following = self._grow(tree, ROOT, head, 0)
        while following and len(self._cached) < self._capacity:
            lead = tree.reach[following[0]]
            if lead < floor or len([reach for reach in tree.reach if reach >= lead]) >= limit:
                break
            if len(following) == _SIBLINGS and not self._share(
                tree.reach[following[1]], max(floor, _CLOSE * lead)
            ):
                following = following[:1]
            following = self._step(tree, following)
        return tree

    def _share(self, reach: float, least: float) -> bool:
        """Whether the second node joins the first in the next pass: it is probable, and there is room."""
        return reach >= least and self._trees and self._capacity - len(self._cached) >= _SIBLINGS

    def _step(self, tree: TreeBuilder, fed: list[int]) -> list[int]:
        """One pass over siblings; the one with the better continuation stays in the cache."""
        tokens = [tree.tokens[node] for node in fed]
        if len(fed) == 1:
            return self._grow(tree, fed[0], self._feed(tokens, self._last_row), 0)
        head = self._pass(tokens, [ROOT] * len(fed), self._all_rows)
        grown = [self._grow(tree, node, head, row) for row, node in enumerate(fed)]
        kept = max(range(len(fed)), key=lambda row: tree.reach[grown[row][0]] if grown[row] else 0.0)
        self._forward.keep_path([kept])
        self._cached.append(tokens[kept])
        return grown[kept]

    def _grow(self, tree: TreeBuilder, node: int, head: HeadRows, row: int) -> list[int]:
        """Add tokens that may follow ``node``; return those that may be followed in turn, best first."""
        if head.entropy.item(row) > _UNSURE_NATS:
            return []
        reach = 1.0 if node == ROOT else tree.reach[node]
        found = self._chosen(head, row, tree.spelled(node))
        added = [(token, tree.add(token, node, reach * prob)) for token, prob in found if reach * prob > 0.0]
        following: list[int] = []
        for token, place in added:
            if len(following) < _SIBLINGS and not self._bridge.ends(token):
                following.append(place)
        return following

    def _chosen(self, head: HeadRows, row: int, path: list[int]) -> list[tuple[int, float]]:
        """Return the choices behind the drafted tokens ``path``."""
        # Only noise reads the position. Greedily the tokens need not be counted in the target's vocabulary.
        position = self._position + (0 if self._params.greedy else self._bridge.length(path))
        return self._choices.find(head, row, position, path)


def common_length(first: Sequence[int], second: Sequence[int], block: int = 256) -> int:
    """Count the tokens that two lists begin with alike. Python compares slices quickly."""
    most = min(len(first), len(second))
    start = 0
    while start < most and first[start : start + block] == second[start : start + block]:
        start += block
    for at in range(min(start, most), min(start + block, most)):
        if first[at] != second[at]:
            return at
    return most
