"""The one assembly: loaded models and a ``RunConfig`` become engines that generate.

A plan comes first, where there is a memory budget; then the KV cache is allocated, once; then the drafters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from edgedec.assemble.budget import Budget, within_budget
from edgedec.assemble.config import RunConfig
from edgedec.assemble.installed import with_head
from edgedec.assemble.loaded_models import LoadedModels
from edgedec.assemble.run_context import RunContext
from edgedec.core.cache_config import CacheConfig, KvType
from edgedec.core.drafter_manifest import HEAD
from edgedec.core.home import DRAFTS
from edgedec.core.units import size
from edgedec.costs.cost_file import CostFile
from edgedec.costs.pass_costs import PassCosts, known_costs
from edgedec.decode.engine import LONGEST_PASS, Engine, PassRecord
from edgedec.decode.speculation import Speculation
from edgedec.draft import Drafter, lookup_ahead
from edgedec.drafters.drafting import Drafting, can_draft, table_drafters
from edgedec.drafters.exit import check_target_drafting, target_drafters
from edgedec.drafters.head import head_drafter
from edgedec.drafters.history import with_history
from edgedec.drafters.pairing import model_drafter
from edgedec.drafters.tables import prepare
from edgedec.drafters.trim import trimmed_head
from edgedec.eviction.policies import policy_for
from edgedec.loaded_model import LoadedModel
from edgedec.memory.ledger import SLACK, Ledger
from edgedec.metrics.measures import traffic_of
from edgedec.sampling import DrawParams

if TYPE_CHECKING:
    from edgedec.control import Costs
    from edgedec.core.forward import Forward
    from edgedec.costs.pass_energy import PassEnergy
    from edgedec.metrics.traffic import Traffic


class Runner:
    """Loaded models with their KV caches, a memory budget and an engine.

    Raises the errors of ``plan_memory`` and ``Backend.forward``, and UnsupportedError for a draft model that
    cannot draft for the target, and for a target without the early exits that a drafter needs.
    """

    def __init__(
        self,
        models: LoadedModels,
        config: RunConfig,
        around: RunContext | None = None,
        budget: Budget | None = None,
    ) -> None:
        """``budget``: the part of another runner's budget that this one may take."""
        self.config = config
        self._around = around or RunContext()
        self.models = with_head(models, config.drafting, self._around.home, self._around.notice)
        self.budget = budget or within_budget(self.models, config, self._around.notice)
        self.ledger: Ledger = self.budget.ledger if self.budget else Ledger()
        self.forward: Forward = self.model.backend.forward(self._cache(), self.ledger)
        small = self.models.drafts[config.switch] if config.switch else None
        traffic = self._traffic(small) if small else None
        self.measures = self._around.measures(self.model, self.kv, traffic)
        self._drafts: dict[str, Forward] = {}
        self._costs: PassCosts | None = None
        self.pass_energy: PassEnergy | None = None
        """The power of passes, where drafts aim at energy."""
        self.drafting = self.budget.drafting(config.drafting) if self.budget else config.drafting
        self.engine = self.engine_for(self.drafting, self._around.observe)
        self._save = self._history()

    @property
    def model(self) -> LoadedModel:
        """The target."""
        return self.models.target

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
            clock=self._around.clock if timed else None,
            policy=policy_for(self.config.when_full, self.forward, ahead),
            meter=self.measures.meter,
        )

    def make_room_for(self, params: DrawParams, *, logprobs: bool = False) -> None:
        """Plan for replies that are drawn with ``params``; a notice says what that costs.

        Raises MemoryBudgetError when the memory budget has no room for them.
        """
        if self.budget is None:
            return
        at_one = logprobs or self.config.switch is not None
        before, self.budget = self.budget, self.budget.drawing_as(params, logprobs=at_one)
        for line in self.budget.plan.given_up[len(before.plan.given_up) :]:
            self._around.notice(f"memory budget {size(self.budget.plan.budget)}, {line}")
        if self.engine.speculation:
            self.engine.speculation.draft_at_most(self.budget.choice.drafted)

    def close(self) -> None:
        """Keep the drafters' history, if it was asked for."""
        save, self._save = self._save, _nothing_to_save
        save()

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
        check_target_drafting(drafting, self.model)
        if not can_draft(self.model, drafting, self._around.notice):
            return None
        drafters: list[Drafter] = table_drafters(drafting, self.ledger)
        home, notice = self._around.home, self._around.notice
        if drafting.prepared and not self._keeps_history(drafting):
            prepare(self.model, drafters, home, self.ledger, notice)
        drafters += target_drafters(drafting, self.model, self.forward, home, notice)
        drafters += self._head_drafter(drafting)
        drafters += [self._model_drafter(name) for name in drafting.models]
        if not drafters:
            return None
        costs = None if drafting.always else self._known_costs()
        return Speculation(
            drafters,
            self._priced(costs) if costs else None,
            limit=drafting.tokens,
            notice=self._around.notice,
            clock=self._around.clock,
            keep=costs.keep if costs else None,
        )

    def _priced(self, costs: PassCosts) -> Costs:
        """Return the costs that drafts are planned by: in seconds, or joules as ``objective`` says."""
        if self.config.objective == "time":
            return costs.curve
        if self.pass_energy is None:
            from edgedec.costs.pass_energy import pass_energy

            notice = self._around.notice
            self.pass_energy = pass_energy(self.forward, costs.curve, self.measures, costs.file, notice)
            notice(self.pass_energy.notice())
        return self.pass_energy.costs(costs.curve)

    def _head_drafter(self, drafting: Drafting) -> list[Drafter]:
        if self.models.head is None or HEAD not in drafting.of_target:
            return []
        ledger = self.ledger.under("head") if self.budget else Ledger()
        return [head_drafter(self.models.head, self.forward, ledger)]

    def _model_drafter(self, name: str) -> Drafter:
        """Make a drafter of a draft model. Its KV cache is allocated at the first use of its name."""
        draft = self.models.drafts[name]
        if name not in self._drafts:
            self._drafts[name] = draft.backend.forward(*self._draft_cache(draft))
        trimmed = trimmed_head(draft, self.model, self._around.home, self._around.notice)
        if trimmed:
            self.ledger.hold(trimmed, SLACK, trimmed.nbytes())
        return model_drafter(name, self.model, draft, self._drafts[name], trimmed)

    def _draft_cache(self, draft: LoadedModel) -> tuple[CacheConfig, Ledger]:
        if self.budget:
            return self.budget.cache(draft), self.ledger.under("drafter")
        context = min(self.forward.capacity, draft.spec.context_length)
        return CacheConfig(context, draft.kv_kind(self.config.kv), LONGEST_PASS), Ledger()

    def _known_costs(self) -> PassCosts:
        if self._costs is None:
            around = self._around
            file = CostFile.of(self.model, self.kv, around.costs) if around.costs else None
            self._costs = known_costs(self.forward, file, clock=around.clock, notice=around.notice)
        return self._costs

    def _keeps_history(self, drafting: Drafting) -> bool:
        """Return whether drafters begin with what the history has; else with what was prepared."""
        return drafting.history and self._around.home is not None

    def _history(self) -> Callable[[], None]:
        home, speculation = self._around.home, self.engine.speculation
        if not self._keeps_history(self.drafting) or home is None or speculation is None:
            return _nothing_to_save
        return with_history(self.model, self.ledger, speculation, home / DRAFTS, self._around.notice)


def _nothing_to_save() -> None:
    """Do nothing: there is no history to keep."""
