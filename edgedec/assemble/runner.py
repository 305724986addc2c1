"""The assembly for one conversation: what was prepared becomes a KV cache, drafters and an engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from edgedec.assemble.budget import Budget
from edgedec.assemble.prepare import Prepared
from edgedec.core.cache_config import CacheConfig, KvType
from edgedec.core.ledger import Ledger
from edgedec.core.units import size
from edgedec.costs.cost_file import CostFile
from edgedec.costs.pass_costs import PassCosts, known_costs
from edgedec.decode.engine import LONGEST_PASS, Engine, PassRecord
from edgedec.decode.passes import PassTimer
from edgedec.decode.speculation import Speculation
from edgedec.disk.home import DRAFTS
from edgedec.draft import Drafter, lookup_ahead
from edgedec.drafters.history import with_history
from edgedec.drafters.interface import BuildContext
from edgedec.drafters.registry import Drafting, in_order
from edgedec.drafters.tables import restore_prepared
from edgedec.eviction.policies import policy_for
from edgedec.loaded_model import LoadedModel
from edgedec.metrics.measures import traffic_of
from edgedec.sampling import DrawParams

if TYPE_CHECKING:
    from edgedec.control import Costs
    from edgedec.core.forward import Forward
    from edgedec.costs.pass_energy import PassEnergy
    from edgedec.metrics.traffic import Traffic


class Runner:
    """A prepared run with its KV cache and an engine. Raises the errors of ``Backend.forward``."""

    def __init__(self, prepared: Prepared) -> None:
        self.prepared, self.config = prepared, prepared.config
        self._context = prepared.context
        self.budget: Budget | None = prepared.budget
        self.ledger: Ledger = self.budget.ledger if self.budget else Ledger()
        self.forward: Forward = self.model.backend.forward(self._cache(), self.ledger)
        traffic = self._traffic(prepared.small) if prepared.small else None
        self.measures = self._context.measures(self.model, self.kv, traffic)
        self._costs: PassCosts | None = None
        self.pass_energy: PassEnergy | None = None
        """The power of passes, where drafts aim at energy."""
        self.engine = self.engine_for(prepared.drafting, self._context.observe)
        self._save = self._history()

    @property
    def model(self) -> LoadedModel:
        """The target."""
        return self.prepared.target

    @property
    def drafting(self) -> Drafting:
        """How its own engine drafts."""
        return self.prepared.drafting

    @property
    def kv(self) -> KvType | None:
        """How the KV cache keeps keys and values; None where another runtime decides that."""
        return self._kv_of(self.model)

    def engine_for(self, drafting: Drafting, observe: Callable[[PassRecord], None] | None = None) -> Engine:
        """Make an engine over this KV cache, with drafters that know at most what was prepared for the model.

        Engines take turns on the cache: the one that generates finds what the last one fed.
        """
        speculation = self._speculation(drafting)
        ahead = speculation.ahead if speculation else lookup_ahead
        timed = speculation is not None or observe is not None
        return Engine(
            self.forward,
            speculation=speculation,
            observe=observe,
            timer=self._timer() if timed else None,
            policy=policy_for(self.config.when_full, self.forward, ahead),
            meter=self.measures.meter,
        )

    def make_room_for(self, params: DrawParams, *, logprobs: bool = False, grammar: bool = False) -> None:
        """Plan for replies that are drawn with ``params``, perhaps under a grammar; a notice says the cost.

        Raises MemoryBudgetError when the memory budget has no room for them.
        """
        if self.budget is None:
            return
        at_one = logprobs or self.config.switch is not None
        before, self.budget = self.budget, self.budget.drawing_as(params, logprobs=at_one, grammar=grammar)
        for line in self.budget.plan.given_up[len(before.plan.given_up) :]:
            self._context.notice(f"memory budget {size(self.budget.plan.budget)}, {line}")
        if self.engine.speculation:
            self.engine.speculation.draft_at_most(self.budget.choice.drafted)

    def close(self) -> None:
        """Keep the drafters' history, if it was asked for."""
        save, self._save = self._save, _nothing_to_save
        save()

    def _timer(self) -> PassTimer:
        store = self.model.backend.experts
        return PassTimer(self._context.clock, store.counts if store else None)

    def _kv_of(self, model: LoadedModel) -> KvType | None:
        if not model.backend.caps.kv_kinds:
            return None
        return self.budget.choice.kv if self.budget else self.config.kv

    def _traffic(self, model: LoadedModel) -> Traffic:
        return traffic_of(model.spec, model.backend.weight_bytes, self._kv_of(model))

    def _cache(self) -> CacheConfig:
        if self.budget:
            return self.budget.cache(self.model)
        # The default suits every model; another kind is refused where another runtime keeps the cache.
        kv = self.model.kv_kind("fp16") if self.config.kv == "fp16" else self.config.kv
        return CacheConfig(self.config.context, kv, LONGEST_PASS)

    def _speculation(self, drafting: Drafting) -> Speculation | None:
        drafters = self._drafters(drafting)
        if not drafters:
            return None
        costs = None if drafting.always else self._known_costs()
        return Speculation(
            drafters,
            self._priced(costs) if costs else None,
            limit=drafting.tokens,
            notice=self._context.notice,
            clock=self._context.clock,
            keep=costs.keep if costs else None,
        )

    def _drafters(self, drafting: Drafting) -> list[Drafter]:
        opened = {spec: self.prepared.opened[spec] for spec in in_order(drafting.drafters)}
        share = drafting.share([*opened.values()])
        found: dict[str, Drafter] = {}
        for one in opened.values():
            ledger = self.ledger
            if one.memory:
                ledger = self.ledger.under(one.memory.part) if self.budget else Ledger()
            setting = BuildContext(self.model, self.forward, ledger, share, self._draft_cache)
            for drafter in one.build(setting):
                found.setdefault(drafter.name, drafter)
        drafters = [*found.values()]
        if drafting.prepared and not self._keeps_history(drafting):
            restore_prepared(self.model, drafters, self._context.home, self.ledger, self._context.notice)
        return drafters

    def _priced(self, costs: PassCosts) -> Costs:
        """Return the costs that drafts are planned by: in seconds, or joules as ``objective`` says."""
        if self.config.objective == "time":
            return costs.curve
        if self.pass_energy is None:
            from edgedec.costs.pass_energy import pass_energy

            notice = self._context.notice
            self.pass_energy = pass_energy(self.forward, self.measures, costs.file, notice)
            notice(self.pass_energy.notice())
        return self.pass_energy.costs(costs.curve)

    def _draft_cache(self, draft: LoadedModel) -> CacheConfig:
        if self.budget:
            return self.budget.cache(draft)
        context = min(self.forward.capacity, draft.spec.context_length)
        return CacheConfig(context, draft.kv_kind(self.config.kv), LONGEST_PASS)

    def _known_costs(self) -> PassCosts:
        if self._costs is None:
            context = self._context
            file = CostFile.of(self.model, self.kv, context.costs) if context.costs else None
            store = self.model.backend.experts
            self._costs = known_costs(
                self.forward, file, clock=context.clock, notice=context.notice, store=store
            )
        return self._costs

    def _keeps_history(self, drafting: Drafting) -> bool:
        """Return whether drafters begin with what the history has; else with what was prepared."""
        return drafting.history and self._context.home is not None

    def _history(self) -> Callable[[], None]:
        home, speculation = self._context.home, self.engine.speculation
        if not self._keeps_history(self.drafting) or home is None or speculation is None:
            return _nothing_to_save
        return with_history(self.model, self.ledger, speculation, home / DRAFTS, self._context.notice)


def _nothing_to_save() -> None:
    """Do nothing: there is no history to keep."""
