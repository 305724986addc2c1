"""The assembly of a run: what was prepared becomes KV caches, drafters and an engine a conversation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING

from edgedec.assemble.budget import Budget, cache_for
from edgedec.assemble.prepare import Prepared
from edgedec.assemble.sequences import OneSequence, SeveralSequences
from edgedec.core.cache_config import LOSSY, CacheConfig, KvType
from edgedec.core.ledger import Ledger
from edgedec.core.units import size
from edgedec.costs.cost_file import CostFile
from edgedec.costs.pass_costs import LONGEST_TOKENS, PassCosts, known_costs
from edgedec.decode.engine import Engine, PassRecord
from edgedec.decode.speculation import Speculation
from edgedec.disk.home import DRAFTS
from edgedec.draft import Drafter, lookup_ahead
from edgedec.drafters.interface import BuildContext
from edgedec.drafters.registry import Drafting, in_order
from edgedec.drafters.tables import restore_prepared
from edgedec.loaded_model import LoadedModel
from edgedec.memory.footprint import MemoryChoice, longest_pass
from edgedec.metrics.marks import CounterSnapshot
from edgedec.metrics.measures import traffic_of
from edgedec.sampling import DrawParams
from edgedec.telemetry.energy.meter import Reading

if TYPE_CHECKING:
    from edgedec.control import Costs
    from edgedec.core.forward import Forward
    from edgedec.costs.pass_energy import PassEnergy
    from edgedec.eviction.policy import Policy
    from edgedec.metrics.traffic import Traffic


class Runner:
    """A prepared run with the engines of its conversations, which are one or several. To be closed.

    Each engine has a sequence of its own in the KV cache, with all the context. Several run in a thread each,
    inside ``reply``. Raises the errors of ``Backend.forward``, ``contrasting`` and ``sequences``.
    """

    def __init__(self, prepared: Prepared) -> None:
        self.prepared, self.model, self.drafting = prepared, prepared.target, prepared.drafting
        self._context = prepared.context
        self.budget: Budget | None = prepared.budget
        self._wanted = prepared.wanted
        self.ledger: Ledger = self.budget.ledger if self.budget else Ledger()
        self.objective, self._when_full = prepared.config.objective, prepared.config.when_full
        cache = cache_for(self.model, self._choice)
        if self._choice.kv != "fp16":
            cache = replace(cache, kv=self._choice.kv)  # refused, not replaced, where it is not possible
        self.kv: KvType | None = cache.kv
        """How the KV cache keeps keys and values; None where another runtime decides that."""
        self.sequences = self._sequences(prepared.config.sequences, cache)
        self.forward: Forward = self.sequences.forwards[0]
        """The forward of the first conversation."""
        traffic = self._traffic(prepared.small) if prepared.small else None
        self.measures = self._context.measures(self.model, self.kv, traffic)
        self._costs: PassCosts | None = None
        self.pass_energy: PassEnergy | None = None
        """The power of passes, where drafts aim at energy."""
        self.engines = self.engines_for(prepared.drafting, self._context.observe)
        self._save = self._history()

    @property
    def engine(self) -> Engine:
        """The engine of the first conversation."""
        return self.engines[0]

    def engines_for(
        self, drafting: Drafting, observe: Callable[[PassRecord], None] | None = None
    ) -> tuple[Engine, ...]:
        """Make an engine for each sequence, with drafters that know at most what was prepared for the model.

        Engines of one sequence take turns on it: the one that generates finds what the last one fed.
        """
        found = [self._drafters(drafting, number) for number in range(len(self.sequences.forwards))]
        if drafting.prepared and not self._keeps_history(drafting):
            every = [drafter for drafters in found for drafter in drafters]
            restore_prepared(self.model, every, self._context.home, self.ledger, self._context.notice)
        return tuple(
            self._engine(number, drafting, drafters, observe) for number, drafters in enumerate(found)
        )

    def reply(self, number: int, *, streams: bool = True) -> AbstractContextManager[None]:
        """Enter a reply of conversation ``number``; see ``SequenceBatch.reply``."""
        return self.sequences.reply(number, streams=streams)

    def passes(self, number: int) -> float:
        """Return the passes of conversation ``number``; of those over several the part of its tokens."""
        return self.sequences.passes(number, self.engines[number].mark().work)

    def mark(self) -> CounterSnapshot:
        """Return the counts of all conversations together up to now."""
        marks, meter = [engine.mark() for engine in self.engines], self.measures.meter
        return CounterSnapshot(
            self.sequences.together([one.work for one in marks]),
            sum(one.draft_bytes for one in marks),
            sum(one.draft_table_bytes for one in marks),
            Reading.of(meter) if meter else None,
        )

    def make_room_for(
        self, params: DrawParams, *, logprobs: bool = False, grammar: bool = False, masked: bool = False
    ) -> None:
        """Plan for replies that are drawn with ``params``, perhaps under a grammar; a notice says the cost.

        ``masked``: some tokens may not come next, for another reason than a grammar.
        Raises MemoryBudgetError when the memory budget has no room for them.
        """
        if self.budget is None:
            return
        at_one = logprobs or self.prepared.small is not None
        before, self.budget = (
            self.budget,
            self.budget.drawing_as(params, logprobs=at_one, grammar=grammar, masked=masked),
        )
        for line in self.budget.plan.given_up[len(before.plan.given_up) :]:
            self._context.notice(f"memory budget {size(self.budget.plan.budget)}, {line}")
        if self.model.backend.experts:
            self.model.backend.experts.limit(self._choice.experts)
        for engine in self.engines:
            if engine.speculation:
                engine.speculation.draft_at_most(self._choice.drafted)

    def close(self) -> None:
        """Keep the drafters' history, if it was asked for, and end the threads that run passes."""
        save, self._save = self._save, _nothing_to_save
        save()
        self.sequences.close()
        for one in self.prepared.opened.values():
            one.close()

    @property
    def _choice(self) -> MemoryChoice:
        """The choices of the memory plan, or those that nothing limits."""
        return self.budget.choice if self.budget else self._wanted

    def _sequences(self, count: int, cache: CacheConfig) -> OneSequence | SeveralSequences:
        backend, weight = self.model.backend, self.prepared.config.context_weight
        longest = longest_pass(self._choice, count)
        if weight is not None:
            forward = backend.contrasting(weight, cache, batch_tokens=longest, ledger=self.ledger)
            return OneSequence(self.model, forward, self._context.clock)
        if count == 1:
            return OneSequence(self.model, backend.forward(cache, self.ledger), self._context.clock)
        return SeveralSequences(self.model, count, cache, longest, self.ledger)

    def _draft_cache(self, draft: LoadedModel) -> CacheConfig:
        """Return the KV cache of one sequence of a draft model."""
        return cache_for(draft, self._choice)

    def _traffic(self, model: LoadedModel) -> Traffic:
        return traffic_of(model.spec, model.backend.weight_bytes, model.kv_kind(self._choice.kv))

    def _engine(
        self,
        number: int,
        drafting: Drafting,
        drafters: Sequence[Drafter],
        observe: Callable[[PassRecord], None] | None,
    ) -> Engine:
        """Make the engine of one conversation."""
        forward, timer = self.sequences.forwards[number], self.sequences.timer(number)
        speculation = None
        if drafters:
            costs = None if drafting.always else self._known_costs()
            speculation = Speculation(
                drafters,
                self._priced(costs, number) if costs else None,
                limit=drafting.tokens,
                notice=self._context.notice,
                clock=timer.clock,
                keep=costs.keep if costs else None,
            )
        return Engine(
            forward,
            speculation=speculation,
            observe=observe,
            timer=timer if speculation or observe else None,
            policy=self._policy(forward, speculation),
            # Joules of a pass over several conversations are nobody's own.
            meter=self.measures.meter if len(self.sequences.forwards) == 1 else None,
        )

    def _policy(self, forward: Forward, speculation: Speculation | None) -> Policy | None:
        """Return what evicts tokens, where something does."""
        if self._when_full not in LOSSY:
            return None
        from edgedec.eviction.policies import policy_for

        return policy_for(self._when_full, forward, speculation.ahead if speculation else lookup_ahead)

    def _drafters(self, drafting: Drafting, number: int) -> list[Drafter]:
        """Make the drafters of one conversation."""
        opened = {spec: self.prepared.opened[spec] for spec in in_order(drafting.drafters)}
        share = drafting.share([*opened.values()])
        forward, place = self.sequences.forwards[number], self.sequences.place(number)
        found: dict[str, Drafter] = {}
        for one in opened.values():
            ledger = self.ledger
            if one.memory:
                ledger = self.ledger.under(one.memory.part) if self.budget else Ledger()
            setting = BuildContext(self.model, forward, ledger, share, self._draft_cache, place)
            for drafter in one.build(setting):
                found.setdefault(drafter.name, drafter)
        return [*found.values()]

    def _priced(self, costs: PassCosts, number: int) -> Costs:
        """Return the costs that drafts are planned by: in seconds, or joules as the objective says."""
        if self.objective == "time":
            return self.sequences.views(costs.curve)[number]
        if self.pass_energy is None:
            from edgedec.costs.pass_energy import pass_energy

            notice = self._context.notice
            self.pass_energy = pass_energy(self.forward, self.measures, costs.file, notice)
            notice(self.pass_energy.notice())
        return self.pass_energy.costs(costs.curve)

    def _known_costs(self) -> PassCosts:
        """Return the costs of passes, one table for all sequences."""
        if self._costs is None:
            context, forwards = self._context, self.sequences.forwards
            with self.reply(0):
                self._costs = known_costs(
                    self.forward,
                    CostFile.of(self.model, self.kv, context.costs, self.forward) if context.costs else None,
                    clock=self.sequences.clock,
                    notice=context.notice,
                    longest=max(LONGEST_TOKENS, len(forwards) * (1 + self.drafting.tokens)),
                    store=self.model.backend.experts,
                )
        return self._costs

    def _keeps_history(self, drafting: Drafting) -> bool:
        """Return whether drafters begin with what the history has; else with what was prepared."""
        return drafting.history and self._context.home is not None

    def _history(self) -> Callable[[], None]:
        home, speculation = self._context.home, self.engine.speculation
        if not self._keeps_history(self.drafting) or home is None or speculation is None:
            return _nothing_to_save
        from edgedec.drafters.history import with_history

        return with_history(self.model, self.ledger, speculation, home / DRAFTS, self._context.notice)


def _nothing_to_save() -> None:
    """Do nothing: there is no history to keep."""
