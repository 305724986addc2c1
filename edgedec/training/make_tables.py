"""From a target's replies to prepared tables in the home, if they foretell replies that were held out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from edgedec.api import Model
from edgedec.bundle.drafter_manifest import TABLES, Target
from edgedec.core.errors import BadFileError, NotFoundError, Remedy
from edgedec.core.progress import Steps
from edgedec.core.quick_dataclass import dataclass
from edgedec.core.version import __version__
from edgedec.disk.listed_files import Scalar
from edgedec.draft import Drafter, Lookup, Recycling
from edgedec.drafters.artifacts import new_artifact
from edgedec.drafters.tables import write_table
from edgedec.training.replay import NODES, Replayed, answered, replay
from edgedec.training.rollouts import Rollout, RolloutStore
from edgedec.training.tables import contexts_of, recycling_table

_MEASURED_TOKENS = 3000
"""Tokens of replies that are held out for measuring; more tell little more."""


@dataclass(frozen=True, slots=True)
class MadeTables:
    """The outcome: facts for the manifest, and the measurements without and with the tables.

    ``measured`` is None if no reply was held out. ``kept``: the tables were written.
    """

    facts: dict[str, Scalar]
    measured: tuple[Replayed, Replayed] | None
    kept: bool


def make_tables(
    model: Model, store: RolloutStore, home: Path, progress: Steps = lambda done, total: None
) -> MadeTables:
    """Make the tables of ``model`` from ``store``, and write them below ``home`` if they draft better.

    ``progress`` follows the measurement. Raises NotFoundError if there are no replies, BadFileError for those
    of another model, StorageError.
    """
    manifest = model.loaded.manifest
    rollouts = _rollouts(store, Target.of(manifest))
    contexts = contexts_of(rollouts)
    table = recycling_table(contexts)
    measured = _measured(model, list(store.chosen(held_out=True)), table, progress)
    facts: dict[str, Scalar] = {
        "made with": f"EdgeDec {__version__}",
        "made of": "replies of the target",
        "replies": len(rollouts),
        "tokens": sum(len(one.reply) for one in rollouts),
        "contexts": len(contexts),
        "licence": manifest.source.get("licence"),
    }
    if measured:
        without, with_tables = measured
        facts |= {
            "held-out tokens": without.tokens,
            f"tokens per round of {NODES} drafted, without": round(without.block_efficiency, 3),
            f"tokens per round of {NODES} drafted": round(with_tables.block_efficiency, 3),
        }
    kept = not measured or measured[1].rounds < measured[0].rounds
    if kept:
        with new_artifact(manifest, TABLES, home, facts) as folder:
            write_table(folder, Recycling.name, table)
    return MadeTables(facts, measured, kept)


def _rollouts(store: RolloutStore, target: Target) -> list[Rollout]:
    found = store.target()
    if found is not None and found != target:
        raise BadFileError(
            f"{store.folder} holds replies of {found.name}, not of {target.name}", hint="remove that folder"
        )
    rollouts = list(store.chosen(held_out=False))
    if not rollouts:
        raise NotFoundError(
            f"no replies of {target.name} are kept to make tables of, with which its first reply is drafted",
            hint="let it answer prompts first",
            remedy=Remedy("rollouts", target.name),
        )
    top = max(token for one in rollouts for token in (*one.prompt, *one.reply))
    if top >= target.vocab_size:
        raise BadFileError(f"{store.folder} has tokens that {target.name} lacks", hint="remove that folder")
    return rollouts


def _measured(
    model: Model, rollouts: Sequence[Rollout], table: bytes, progress: Steps
) -> tuple[Replayed, Replayed] | None:
    """Return the rounds for replies that were held out, drafted without and with the table."""
    chosen, tokens = [], 0
    for one in rollouts:
        tokens += len(one.reply)
        if tokens <= _MEASURED_TOKENS and len(one.prompt) + len(one.reply) <= model.context:
            chosen.append(one)
    if not chosen:
        return None
    replies = list(answered(model.single.forward, chosen, progress))

    def empty() -> list[Drafter]:
        return [Lookup(), Recycling()]

    def prepared() -> list[Drafter]:
        drafters = empty()
        drafters[1].restore(table, model.loaded.spec.vocab_size)
        return drafters

    return replay(replies, empty), replay(replies, prepared)
