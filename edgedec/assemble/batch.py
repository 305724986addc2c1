"""The assembly for several conversations: one engine for each sequence of a shared KV cache."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from edgedec.assemble.prepare import Prepared
from edgedec.backends.backend import PassRequest
from edgedec.backends.checks import checked_capacity
from edgedec.control import BatchCosts
from edgedec.core.cache_config import CacheConfig
from edgedec.core.experts import StoreCounts
from edgedec.core.ledger import Ledger
from edgedec.core.units import size
from edgedec.costs.cost_file import CostFile
from edgedec.costs.pass_costs import known_costs
from edgedec.decode.conversation_clock import ConversationClock
from edgedec.decode.engine import LONGEST_PASS, Engine
from edgedec.decode.passes import PassTimer
from edgedec.decode.speculation import Speculation
from edgedec.draft import Drafter
from edgedec.drafters.interface import BatchPlace, BuildContext
from edgedec.drafters.registry import in_order
from edgedec.drafters.tables import restore_prepared
from edgedec.loaded_model import LoadedModel
from edgedec.memory.footprint import MemoryChoice, longest_pass
from edgedec.metrics.marks import CounterSnapshot
from edgedec.metrics.traffic import Work
from edgedec.sampling import DrawParams
from edgedec.telemetry.energy import Reading


class Batch:
    """``config.sequences`` engines side by side, each with the context that a single one has.

    Each engine runs in a thread of its own; their passes meet in one batch. Raises the errors of
    ``Backend.sequences``. To be closed.
    """

    def __init__(self, prepared: Prepared) -> None:
        self.prepared, self.config = prepared, prepared.config
        config = self.config
        self._context = prepared.context
        self.budget = prepared.budget
        self.ledger = self.budget.ledger if self.budget else Ledger()
        self.drafting = prepared.drafting
        self._costs: BatchCosts | None = None
        self._passes = 0
        self._counts = StoreCounts(0, 0, 0, 0.0)
        self.shares = [0.0] * config.sequences
        """Passes of each sequence; of one with others in it, the part of its tokens."""
        drafts = bool(self.drafting.drafters)
        cache, batch_tokens = self._cache(self.drafting.tokens if drafts else 0)
        self.sequences = self.model.backend.sequences(
            config.sequences, cache, batch_tokens=batch_tokens, ledger=self.ledger, observe=self._passed
        )
        self.kv = cache.kv
        self.measures = self._context.measures(self.model, self.kv)
        clocks = [ConversationClock() for _ in range(config.sequences)]
        speculations = self._speculations(clocks) if drafts else [None] * config.sequences
        self.engines = tuple(
            Engine(forward, speculation=one, timer=PassTimer(clock) if one else None)
            for forward, one, clock in zip(self.sequences.forwards, speculations, clocks, strict=True)
        )

    @property
    def model(self) -> LoadedModel:
        """The target."""
        return self.prepared.target

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

    def make_room_for(self, params: DrawParams, *, logprobs: bool = False) -> None:
        """Plan for replies that are drawn with ``params``; see ``Runner.make_room_for``."""
        if self.budget is None:
            return
        before, self.budget = self.budget, self.budget.drawing_as(params, logprobs=logprobs)
        for line in self.budget.plan.given_up[len(before.plan.given_up) :]:
            self._context.notice(f"memory budget {size(self.budget.plan.budget)}, {line}")
        for engine in self.engines:
            if engine.speculation:
                engine.speculation.draft_at_most(self.budget.choice.drafted)

    def close(self) -> None:
        """End the threads that run passes."""
        self.sequences.close()
        for one in self.prepared.opened.values():
            one.close()

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

    def _speculations(self, clocks: Sequence[ConversationClock]) -> Sequence[Speculation]:
        """Make drafters for each sequence, and one table of pass costs for all.

        Drafting is charged by the conversation's own clock.
        """
        count, context = self.config.sequences, self._context
        file = CostFile.of(self.model, self.kv, context.costs) if context.costs else None
        with self.sequences.reply(0):
            costs = known_costs(
                self.sequences.forwards[0],
                file,
                clock=time.perf_counter,
                notice=context.notice,
                longest=count * (1 + self.drafting.tokens),
                store=self.model.backend.experts,
            )
        self._costs = BatchCosts(costs.curve, count)
        drafters = [self._drafters(BatchPlace(number, count, clock)) for number, clock in enumerate(clocks)]
        every = [one for some in drafters for one in some]
        restore_prepared(self.model, every, context.home, self.ledger, context.notice)
        return [
            Speculation(
                some,
                view,
                limit=self.drafting.tokens,
                notice=context.notice,
                clock=clock,
                keep=costs.keep,
            )
            for some, view, clock in zip(drafters, self._costs.views, clocks, strict=True)
        ]

    def _drafters(self, place: BatchPlace) -> list[Drafter]:
        """Make the drafters of one conversation."""
        opened = [self.prepared.opened[spec] for spec in in_order(self.drafting.drafters)]
        share, found = self.drafting.share(opened), list[Drafter]()
        for one in opened:
            ledger = self.ledger
            if one.memory:
                ledger = self.ledger.under(one.memory.part) if self.budget else Ledger()
            found += one.build(BuildContext(self.model, None, ledger, share, self._draft_cache, place))
        return found

    def _draft_cache(self, draft: LoadedModel) -> CacheConfig:
        """Return the KV cache of one sequence of a draft model."""
        if self.budget:
            return self.budget.cache(draft)
        context = min(self.sequences.forwards[0].capacity, draft.spec.context_length)
        return CacheConfig(context, draft.kv_kind(self.config.kv), LONGEST_PASS)

    def _passed(self, requests: Sequence[PassRequest], seconds: float) -> None:
        """Count a pass, and learn from one that decodes.

        Pieces of prompts, which ask for no rows, say nothing of drafts.
        """
        self._passes += 1
        total = sum(len(request.tokens) for request in requests)
        read = self._read_since_last()
        for request in requests:
            self.shares[request.sequence] += len(request.tokens) / total
        if self._costs and all(
            len(request.rows.resolve(len(request.tokens))) == len(request.tokens) for request in requests
        ):
            self._costs.passed({one.sequence: len(one.tokens) for one in requests}, seconds, read)

    def _read_since_last(self) -> StoreCounts | None:
        """Return what passes read of experts on a disk since the last call; None where none are read."""
        if (store := self.model.backend.experts) is None:
            return None
        before, self._counts = self._counts, store.counts()
        return self._counts.since(before)
