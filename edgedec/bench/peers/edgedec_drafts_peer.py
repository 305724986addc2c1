"""EdgeDec with drafts as sides of a comparison: one loaded model, and an engine for every way to draft.

The engines take turns on one cache. Who comes first reads a prompt, and the others find it there: only
decoding is compared among them. What drafters learned from earlier replies stays with them.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from edgedec import __version__
from edgedec.core.manifest import Manifest
from edgedec.core.rows import ALL_ROWS
from edgedec.decode.engine import Engine, PassRecord
from edgedec.decode.speculation import Speculation
from edgedec.draft import lookup_ahead
from edgedec.eviction.policies import policy_for
from edgedec.eviction.policy import Policy
from edgedec.memory import KvType
from edgedec.runtime.drafting import MOST_DRAFTED, OFF, Drafting, speculation_for
from edgedec.runtime.loaded_model import LoadedModel, kv_of_draft, load_model
from edgedec.sampling import SamplingParams

_WARM = 16


class Mode:
    """One way to draft, with what its engine did since ``rounds`` was emptied."""

    def __init__(self, peer: Peer, drafting: Drafting) -> None:
        self.notices: list[str] = []
        self.rounds: list[PassRecord] = []
        self.speculation: Speculation | None = speculation_for(
            peer.model,
            drafting,
            peer.costs,
            clock=time.perf_counter,
            notice=self.notices.append,
            open_draft=peer.open_draft,
        )
        self.engine = Engine(
            peer.model.forward,
            speculation=self.speculation,
            observe=self.rounds.append,
            clock=time.perf_counter,
            policy=peer.policy(self.speculation),
        )

    @property
    def draft_s(self) -> float:
        return self.speculation.tally.draft_s if self.speculation else 0.0


class Peer:
    def open(self, **settings: Any) -> dict[str, Any]:
        """Load the model, see ``load``, and run a pass."""
        facts = self.load(**settings)
        self.warm_up()
        return facts

    def load(
        self, model: str, threads: int, context: int | None, costs: str, draft_models: dict[str, str],
        draft_tokens: int = MOST_DRAFTED, kv: KvType = "fp16", when_full: str | None = None, sinks: int = 0,
    ) -> dict[str, Any]:  # fmt: skip
        """Load the bundle at ``model``; ``costs`` is the folder of what passes were measured to cost,
        ``draft_models`` names the bundles of models that draft. ``when_full``: see ``policy_for``; ``sinks``
        tokens stay then.
        """
        self._draft_models = draft_models
        self._prompt: list[int] = []
        self.model = load_model(Path(model), threads=threads, context=context, kv=kv)
        self._when_full, self._sinks = when_full, sinks
        self.costs = Path(costs)
        self.most = draft_tokens
        self._modes: dict[str, Mode] = {}
        planned = self.model.forward.nbytes()
        return {"version": __version__, "isa": self.model.isa, "planned_bytes": planned}

    def policy(self, speculation: Speculation | None) -> Policy | None:
        """What an engine does when the cache is full; None: the reply ends."""
        policy = policy_for(
            self._when_full, self.model.forward, speculation.ahead if speculation else lookup_ahead
        )
        if policy:
            policy.keep(self._sinks)
        return policy

    def warm_up(self) -> None:
        forward = self.model.forward
        forward.extend([0] * min(_WARM, forward.capacity, forward.caps.max_pass), rows=ALL_ROWS)
        forward.rewind(0)

    def drafting(self, mode: str) -> Drafting:
        """What a way to draft comes to here."""
        return Drafting(mode, self.most)

    def open_draft(self, name: str) -> LoadedModel:
        """A model that drafts, with threads, kind of cache, and as far as it can context of its target."""
        bundle = Path(self._draft_models[name])
        manifest = Manifest.load(bundle)
        context = min(self.model.forward.capacity, manifest.spec.context_length)
        kv = kv_of_draft(self.model, manifest)
        return load_model(bundle, threads=self.model.threads, context=context, kv=kv)

    def reply(
        self,
        tokens: list[int],
        max_tokens: int,
        stop: list[int],
        mode: str,
        sampling: dict[str, Any],
        fresh: bool = False,
    ) -> dict[str, Any]:
        """Continue ``tokens`` until one of ``stop``, drafting as ``mode`` says.

        ``fresh``: with drafters that have learned nothing yet. ``rounds`` of the answer: per pass after the
        prompt's how many tokens were drafted, how deep, and how many of those were right.
        """
        if fresh or mode not in self._modes:
            self._modes.pop(mode, None)  # before the new one is made: only one of them has to fit
            self._modes[mode] = Mode(self, self.drafting(mode))
        used = self._modes[mode]
        self.show_prompt(used, tokens)
        used.rounds.clear()
        params = SamplingParams(**sampling)
        started = time.perf_counter()
        steps = used.engine.generate(tokens, params, max_tokens=max_tokens, stop_ids=stop)
        out = [next(steps).token]
        first, draft_s, passes = time.perf_counter(), used.draft_s, len(used.rounds)
        out += [step.token for step in steps]
        decode_s = time.perf_counter() - first
        self._prompt = tokens
        return {
            "prefill_s": first - started,
            "decode_s": decode_s,
            "tokens": out,
            "draft_s": used.draft_s - draft_s,
            **_summary(used.rounds[passes:]),
            "drafters": used.speculation.nbytes() if used.speculation else {},
            "notices": [] if mode == OFF else used.notices,
        }

    def show_prompt(self, used: Mode, tokens: list[int]) -> None:
        """Leave in the cache what another way to draft read of this very prompt, and nothing else."""
        kept = len(tokens) if tokens == self._prompt and not used.engine.policy else 0
        self.model.forward.rewind(min(kept, self.model.forward.length))
        used.engine.adopt(tokens[: self.model.forward.length])


def _summary(records: list[PassRecord]) -> dict[str, Any]:
    sources: dict[str, list[int]] = {}
    rounds = []
    for record in records:
        depths: list[int] = []
        for parent in record.tree.parents:
            depths.append(1 if parent < 0 else depths[parent] + 1)
        rounds.append([record.drafted, max(depths, default=0), len(record.path)])
        for node, source in enumerate(record.tree.sources):
            counts = sources.setdefault(source, [0, 0])
            counts[0] += 1
            counts[1] += node in record.path
    return {
        "rounds": rounds,
        "verify_s": sum(record.seconds or 0.0 for record in records),
        "sources": sources,
    }
