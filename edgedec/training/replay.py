"""Drafting for replies that are known already: how many tokens a round would have committed.

The target's passes over them are repeated, for its answers. Drafters hear of those on the path of the reply,
and not of answers to rejected drafts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from edgedec.core.forward import Forward
from edgedec.core.progress import Steps
from edgedec.core.quick_dataclass import dataclass
from edgedec.core.rows import HeadRows, Rows
from edgedec.core.tree import ROOT, DraftTree
from edgedec.decode.engine import LONGEST_PASS
from edgedec.decode.speculation import Speculation
from edgedec.draft import Drafter
from edgedec.training.rollouts import Rollout

NODES = 8
"""Drafted tokens of a round."""
_NO_ROWS = Rows(indices=())


@dataclass(frozen=True, slots=True)
class Answered:
    """A rollout with the target's answers after its prompt and after each token of the reply but the last."""

    rollout: Rollout
    rows: HeadRows


@dataclass(frozen=True, slots=True)
class Replayed:
    """Tokens that rounds committed, and rounds."""

    tokens: int
    rounds: int

    @property
    def block_efficiency(self) -> float:
        """Tokens per round."""
        return self.tokens / max(self.rounds, 1)


def answered(
    forward: Forward, rollouts: Sequence[Rollout], progress: Steps = lambda done, total: None
) -> Iterator[Answered]:
    """Feed replies again, and yield each with the target's answers.

    ``progress`` gets tokens fed, and tokens in all. Raises ContextFullError for one that does not fit.
    """
    total, done = sum(len(one.prompt) + len(one.reply) for one in rollouts), 0
    for one in rollouts:
        yield Answered(one, _answers(forward, one))
        done += len(one.prompt) + len(one.reply)
        progress(done, total)


def _answers(forward: Forward, one: Rollout) -> HeadRows:
    tokens, first = [*one.prompt, *one.reply][:-1], len(one.prompt) - 1
    forward.rewind(0)
    parts = []
    for start in range(0, len(tokens), LONGEST_PASS):
        piece = tokens[start : start + LONGEST_PASS]
        wanted = tuple(range(max(first - start, 0), len(piece)))
        parts.append(forward.extend(piece, rows=Rows(indices=wanted) if wanted else _NO_ROWS))
    return _joined([rows for rows in parts if len(rows)])


def _joined(parts: Sequence[HeadRows]) -> HeadRows:
    return HeadRows(
        np.concatenate([one.values for one in parts]),
        np.concatenate([one.ids for one in parts]),
        np.concatenate([one.logsumexp for one in parts]),
        np.concatenate([one.entropy for one in parts]),
    )


def replay(replies: Sequence[Answered], drafters: Callable[[], Sequence[Drafter]]) -> Replayed:
    """Draft for each reply as for the first one of a process, with drafters that are made for it."""
    rounds = sum(_rounds(one, Speculation(drafters(), limit=NODES)) for one in replies)
    return Replayed(sum(len(one.rollout.reply) for one in replies), rounds)


def _rounds(one: Answered, speculation: Speculation) -> int:
    reply, at, rounds = one.rollout.reply, 0, 0
    speculation.begin(one.rollout.prompt, 0)
    while at < len(reply):
        accepted = _accepted(speculation.draft(NODES), reply[at : len(reply) - 1])
        answers = _cut(one.rows, at, at + accepted + 1)
        speculation.note(reply[at : at + accepted], answers, reply[at : at + accepted + 1])
        at += accepted + 1
        rounds += 1
    speculation.end()
    return rounds


def _accepted(tree: DraftTree, reply: Sequence[int]) -> int:
    """Return how many tokens of ``reply`` are a path of the tree."""
    node = ROOT
    for count, token in enumerate(reply):
        match = next((child for child in tree.children(node) if tree.tokens[child] == token), None)
        if match is None:
            return count
        node = match
    return len(reply)


def _cut(rows: HeadRows, start: int, end: int) -> HeadRows:
    return HeadRows(
        rows.values[start:end], rows.ids[start:end], rows.logsumexp[start:end], rows.entropy[start:end]
    )
