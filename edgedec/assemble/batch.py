"""The assembly for several conversations: one engine for each sequence of a shared KV cache."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from edgedec.assemble.budget import within_budget
from edgedec.assemble.config import RunConfig
from edgedec.assemble.loaded_models import LoadedModels
from edgedec.assemble.run_context import RunContext
from edgedec.backends.backend import PassRequest
from edgedec.backends.checks import checked_capacity
from edgedec.control import BatchCosts
from edgedec.core.cache_config import CacheConfig
from edgedec.core.errors import Remedy, UnsupportedError, UsageError
from edgedec.costs.cost_file import CostFile
from edgedec.costs.pass_costs import known_costs
from edgedec.decode.engine import LONGEST_PASS, Engine
from edgedec.decode.speculation import Speculation
from edgedec.drafters.drafting import AUTO, OFF, Drafting, can_draft, table_drafters
from edgedec.drafters.tables import prepare
from edgedec.loaded_model import LoadedModel
from edgedec.memory.footprint import MemoryChoice, longest_pass
from edgedec.memory.ledger import Ledger
from edgedec.metrics.marks import CounterSnapshot
from edgedec.metrics.traffic import Work
from edgedec.telemetry.energy import Reading


class Batch:
    """``config.sequences`` engines side by side, each with the context that a single one has.

    Each engine runs in a thread of its own; their passes meet in one batch. Raises the errors of
    ``check_batch``, ``plan_memory`` and ``Backend.sequences``. To be closed.
    """

    def __init__(self, models: LoadedModels, config: RunConfig, around: RunContext | None = None) -> None:
        check_batch(models.target, config.sequences, config.drafting)
        self.models, self.config = models, config
        self._around = around or RunContext()
        self.budget = within_budget(models, config, self._around.notice)
        self.ledger = self.budget.ledger if self.budget else Ledger()
        self.drafting = self.budget.drafting(config.drafting) if self.budget else config.drafting
        self._costs: BatchCosts | None = None
        self._passes = 0
        drafts = can_draft(self.model, self.drafting, self._around.notice)
        cache, batch_tokens = self._cache(self.drafting.tokens if drafts else 0)
        self.sequences = self.model.backend.sequences(
            config.sequences, cache, batch_tokens=batch_tokens, ledger=self.ledger, observe=self._passed
        )
        self.kv = cache.kv
        self.measures = self._around.measures(self.model, self.kv)
        speculations = self._speculations() if drafts else [None] * config.sequences
        self.engines = tuple(
            Engine(forward, speculation=one, clock=time.thread_time if one else None)
            for forward, one in zip(self.sequences.forwards, speculations, strict=True)
        )

    @property
    def model(self) -> LoadedModel:
        """The target."""
        return self.models.target

    def mark(self) -> CounterSnapshot:
        """Return the counts of all conversations together up to now.

        A pass over several of them reads the weights once, and counts once.
        """
        marks = [engine.mark() for engine in self.engines]
        work = Work()
        for one in marks:
            work = work.with_more(one.work)
        meter = self.measures.meter
        return CounterSnapshot(
            replace(work, passes=self._passes),
            sum(one.draft_bytes for one in marks),
            sum(one.draft_table_bytes for one in marks),
            Reading.of(meter) if meter else None,
        )

    def close(self) -> None:
        """End the thread that runs passes."""
        self.sequences.close()

    def _cache(self, drafted: int) -> tuple[CacheConfig, int]:
        """Return the cache of one sequence, and the most tokens of a pass over all of them."""
        count, config = self.config.sequences, self.config
        capacity = checked_capacity(self.model.spec, config.context)
        kv, prompt_pass = config.kv, LONGEST_PASS
        if self.budget:
            choice = self.budget.choice
            capacity, kv, prompt_pass = choice.context, choice.kv, choice.prompt_pass
        passes = MemoryChoice(0, prompt_pass=min(prompt_pass, capacity), drafted=drafted)
        return CacheConfig(capacity, kv, longest_pass(passes)), longest_pass(passes, count)

    def _speculations(self) -> Sequence[Speculation]:
        """Make drafters for each sequence, and one table of pass costs for all.

        Drafting is charged by the time of the conversation's own thread.
        """
        count, around = self.config.sequences, self._around
        home = around.home
        file = CostFile.of(self.model, self.kv, around.costs) if around.costs else None
        with self.sequences.reply(0):
            costs = known_costs(
                self.sequences.forwards[0],
                file,
                clock=time.perf_counter,
                notice=around.notice,
                longest=count * (1 + self.drafting.tokens),
            )
        self._costs = BatchCosts(costs.curve, count)
        drafters = [table_drafters(self.drafting, self.ledger) for _ in self._costs.views]
        prepare(self.model, [one for some in drafters for one in some], home, self.ledger, around.notice)
        return [
            Speculation(
                some,
                view,
                limit=self.drafting.tokens,
                notice=around.notice,
                clock=time.thread_time,
                keep=costs.keep,
            )
            for some, view in zip(drafters, self._costs.views, strict=True)
        ]

    def _passed(self, requests: Sequence[PassRequest], seconds: float) -> None:
        """Count a pass, and learn from one that decodes.

        Pieces of prompts, which ask for no rows, say nothing of drafts.
        """
        self._passes += 1
        if self._costs and all(
            len(request.rows.resolve(len(request.tokens))) == len(request.tokens) for request in requests
        ):
            self._costs.passed({one.sequence: len(one.tokens) for one in requests}, seconds)


def check_batch(model: LoadedModel, count: int, drafting: Drafting) -> None:
    """Raise UsageError or UnsupportedError unless ``count`` conversations can run with these drafts."""
    most = model.backend.caps.sequences
    if count > most:
        if most > 1:
            raise UsageError(
                f"a batch of {count} conversations is not possible",
                hint=f"use 1 to {most}",
                remedy=Remedy("conversations", most),
            )
        raise UnsupportedError(
            f"{model.name} runs in {model.isa}, one conversation at a time",
            hint="export the model for EdgeDec's kernels, or run one conversation",
            remedy=(Remedy("export"), Remedy("conversations")),
        )
    check_batch_drafting(drafting)


def check_batch_drafting(drafting: Drafting) -> None:
    """Raise UsageError unless several conversations at once can have these drafters."""
    if drafting.models or drafting.of_target:
        raise UsageError(
            f"{'a draft model' if drafting.models else drafting.of_target[0]} cannot draft for a batch of "
            "conversations",
            hint=f"use the drafters {AUTO} or {OFF}, or one conversation at a time",
            remedy=(Remedy("draft", AUTO), Remedy("draft", OFF), Remedy("conversations")),
        )
    if drafting.history:
        raise UsageError(
            "drafts are kept between runs for one conversation at a time only",
            hint="do not keep them",
            remedy=Remedy("history"),
        )
