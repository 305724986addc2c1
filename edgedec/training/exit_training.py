"""From a target's replies to trained exits: fitted, compared on held-out replies, and written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgedec.core.errors import UnsupportedError, UsageError
from edgedec.core.exits import Bypass
from edgedec.core.forward import Forward
from edgedec.core.listed_files import Scalar
from edgedec.core.manifest import Manifest
from edgedec.core.progress import Progress, silent
from edgedec.core.rows import Keep
from edgedec.draft.exit import Way
from edgedec.draft.exit_adapter import ExitAdapter
from edgedec.runtime.exits import MOST_SHARE, agreement_of
from edgedec.training.exit_agreement import agreements, exit_rows
from edgedec.training.exit_fit import F64, RIDGES, ExitSums, head_metric
from edgedec.training.head_training import Replies
from edgedec.training.target_weights import TargetWeights

CHOOSING_TOKENS = 200
"""Tokens of the last replies that are fitted to no exit: they choose the strength of the ridge."""
MEASURED_TOKENS = 400
_NORM = "output_norm.weight"
_BYTES = 2
"""Bytes of a stored number."""


@dataclass(frozen=True, slots=True)
class TrainedExit:
    """An exit with its correction, and its agreement on held-out replies ``before`` and ``after`` that."""

    adapter: ExitAdapter
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class ExitSettings:
    """``exits``: those to train; none: all in the second half of the layers. ``tokens``: most to read."""

    rank: int = 64
    exits: tuple[int, ...] = ()
    tokens: int = 20_000


def chosen_exits(manifest: Manifest, forward: Forward, settings: ExitSettings) -> tuple[int, ...]:
    """Return the exits to train.

    Raises UnsupportedError for a model without exits, UsageError for one that it does not have and for more
    weights than 3 % of the model's bytes.
    """
    if not forward.caps.exits:
        raise UnsupportedError(
            f"{manifest.name} has no early exits that could be trained",
            hint="pull or export the model again",
        )
    *early, last = forward.caps.exits
    for exit in settings.exits:
        if exit not in early:
            raise UsageError(
                f"{manifest.name} has no early exit after {exit} layers",
                hint=f"there are {', '.join(map(str, early))}",
            )
    exits = settings.exits or tuple(exit for exit in early if 2 * exit >= last)
    size = 2 * _BYTES * settings.rank * manifest.spec.hidden_size * len(exits)
    most = MOST_SHARE * forward.nbytes()["weights"]
    if size > most:
        raise UsageError(
            f"{len(exits)} exits of rank {settings.rank} take more than {MOST_SHARE:.0%} of its bytes",
            hint=f"a rank of at most {int(settings.rank * most / size)} would do",
        )
    return exits


@dataclass(frozen=True, slots=True)
class ExitData:
    """The target that runs in ``forward``, its weights and replies, and the ids that its head is trimmed to.

    ``keep`` None: its whole vocabulary counts.
    """

    forward: Forward
    weights: TargetWeights
    replies: Replies
    keep: Keep | None

    def metric(self) -> F64:
        """Return the matrix of ``head_metric``."""
        head = self.weights.head
        rows = head.whole() if self.keep is None else head.gather(self.keep)
        return head_metric(rows, self.weights.vector(_NORM))


def train_exits(
    data: ExitData, exits: Sequence[int], settings: ExitSettings, progress: Progress = silent
) -> list[TrainedExit]:
    """Fit the corrections of ``exits``, and measure them."""
    forward, replies, keep = data.forward, data.replies, data.keep
    sums = _sums(data, exits, settings, progress)
    metric = data.metric()
    last = forward.caps.exits[-1]
    best: dict[int, ExitAdapter] = {}
    rates = dict.fromkeys(exits, -1.0)
    chosen_by = replies.train[::-1]
    for number, ridge in enumerate(RIDGES):
        made = {exit: sums[exit].adapter(exit, settings.rank, ridge, metric) for exit in exits}
        ways = [Way(exit, Bypass(last, made[exit])) for exit in exits]
        found = agreements(forward, chosen_by, ways, keep=keep, most_tokens=CHOOSING_TOKENS)
        for exit, way in zip(exits, ways, strict=True):
            if found[way].rate > rates[exit]:
                best[exit], rates[exit] = made[exit], found[way].rate
        progress("fitting", number + 1, len(RIDGES))
    before = [Way(exit) for exit in exits]
    after = [Way(exit, Bypass(last, best[exit])) for exit in exits]
    measured = agreements(
        forward, replies.held_out, [*before, *after], keep=keep, most_tokens=MEASURED_TOKENS,
        progress=lambda done, total: progress("measuring", done, total),
    )  # fmt: skip
    return [
        TrainedExit(best[exit], measured[a].rate, measured[b].rate)
        for exit, a, b in zip(exits, before, after, strict=True)
    ]


def facts_of(trained: Sequence[TrainedExit], replies: Replies, settings: ExitSettings) -> dict[str, Scalar]:
    """Return what is known about trained exits, for their manifest."""
    facts: dict[str, Scalar] = {
        "rank": settings.rank,
        "reply tokens": min(replies.tokens, settings.tokens),
        "recipe": "reduced-rank ridge regression onto the rows after all layers, in the metric of the head",
        "held-out replies": len(replies.held_out),
    }
    for one in trained:
        exit = one.adapter.exit
        facts[f"agreement after {exit} layers, untrained"] = round(one.before, 4)
        facts[agreement_of(exit)] = round(one.after, 4)
    return facts


def _sums(
    data: ExitData, exits: Sequence[int], settings: ExitSettings, progress: Progress
) -> Mapping[int, ExitSums]:
    forward, replies, last = data.forward, data.replies, data.forward.caps.exits[-1]
    sums = {exit: ExitSums(forward.spec.hidden_size) for exit in exits}
    count, most = 0, min(settings.tokens, max(replies.tokens - CHOOSING_TOKENS, 1))
    for rows in exit_rows(forward, replies.train, [*exits, last], most):
        for exit in exits:
            sums[exit].add(rows[exit], rows[last])
        count += len(rows[last])
        progress("rows", min(count, most), most)
    return sums
