"""EdgeDec as a side of a comparison: the engine, chat and batch that its commands run, and nothing faster."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import astuple, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from edgedec.api import Model, context_of
from edgedec.assemble.prepare import Bundles, prepare
from edgedec.assemble.run_context import RunContext
from edgedec.backends.open import runtime_of
from edgedec.bench.harness.memory_levels import drafts_end
from edgedec.bench.harness.runtimes import OwnRun
from edgedec.bundle.manifest import WEIGHTS, Manifest
from edgedec.control.tally import Tally
from edgedec.core.errors import MemoryBudgetError, UnsupportedError
from edgedec.core.forward import Forward
from edgedec.core.rows import ALL_ROWS, Rows
from edgedec.core.version import __version__
from edgedec.decode.engine import Engine, PassRecord
from edgedec.draft import lookup_ahead
from edgedec.drafters.registry import OFF
from edgedec.eviction.policies import policy_for
from edgedec.models import Store
from edgedec.sampling import DrawParams
from edgedec.session.chat import Chat
from edgedec.session.reply import Reply
from edgedec.system.memory import mapped_rss_bytes

ROWS_BYTES = 64 << 20
"""Most bytes of logits rows of one pass."""
_WARM_UP_TOKENS = 16
_COUNTS_UP = re.compile(r"measuring: \d+%")


Judged = dict[str, list[list[int]]]


class Mode:
    """One drafter set: an engine with drafters of its own, which have learned nothing yet."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.notices: list[str] = []

    def tally(self) -> Tally:
        """The counts so far, which stay as they are when counting goes on."""
        return deepcopy(self.engine.speculation.tally) if self.engine.speculation else Tally()

    def judged(self) -> Judged:
        """The drafters' tokens so far by probability, see ``Speculation.judged``."""
        return self.engine.speculation.judged() if self.engine.speculation else {}


class Peer:
    def __init__(self) -> None:
        self._modes: dict[tuple[str, bool, int], Mode] = {}
        self._records: list[PassRecord] = []
        self._notices: list[str] = []
        self._prompt: list[int] = []
        self._latest: Mode | None = None
        self._chat: Chat | None = None
        self._filled = 0

    def open(self, model: str, run: dict[str, Any]) -> dict[str, Any]:
        """Load the bundle at ``model``. ``run``: the fields of ``OwnRun``.

        The answer has ``capacity``, ``kv``, and with a memory level ``memory`` (the plan) and ``drafts_end``
        (see ``memory_levels``), or ``refused`` when the budget is too small for anything.
        """
        self.run = OwnRun.read(run)
        self._path = Path(model).resolve()
        drafts = {name: Path(path) for name, path in self.run.draft_models.items()}
        home = Path(self.run.home) if self.run.home else None
        context = context_of(Store(home), self._heard) if home else RunContext(notice=self._heard)
        context = replace(context, observe=self._records.append)
        facts: dict[str, Any] = {
            "version": __version__,
            "isa": runtime_of(Manifest.load(self._path), self.run.device),
        }
        bundles, also = Bundles(self._path, drafts), self.run.modes.values()
        try:
            self._prepared = prepare(self.run.config, bundles, context, also=also)
            self.model = Model(self._prepared)
        except MemoryBudgetError as error:
            return {**facts, "refused": error.message}
        lost = set(drafts) - {spec.name for spec in self._prepared.opened}
        if lost and not self.run.level:
            raise UnsupportedError("; ".join(self._notices))
        if self.run.level:
            facts |= self._plan()
        runner = self.model.runner
        forward = runner.forward
        with runner.reply(0):
            _warm_up(forward)
        facts |= {"max_pass": forward.caps.max_pass, "planned_bytes": forward.nbytes()}
        return {**facts, "capacity": forward.capacity, "kv": runner.kv}

    def generate(self, tokens: list[int], max_tokens: int) -> dict[str, Any]:
        """Continue greedily by exactly ``max_tokens`` tokens from an empty cache. Times are in seconds."""
        mode = self._mode(OFF)
        mode.engine.reset()
        started = time.perf_counter()
        steps = mode.engine.generate(tokens, DrawParams(), max_tokens=max_tokens, stop_ids=())
        out = [next(steps).token]
        first = time.perf_counter()
        out += [step.token for step in steps]
        return {"prefill_s": first - started, "decode_s": time.perf_counter() - first, "tokens": out}

    def reply(
        self,
        tokens: list[int],
        max_tokens: int,
        stop: list[int],
        mode: str,
        sampling: dict[str, Any],
        sinks: int | None = None,
        **how: Any,
    ) -> dict[str, Any]:
        """Continue ``tokens`` until one of ``stop``, with drafts as ``mode`` says.

        ``sinks``: tokens that eviction keeps at the beginning of this prompt, None: as ``OwnRun`` has it.
        ``how``: ``prepared``, whether drafters begin with prepared tables; ``always``, see ``OwnRun``.

        ``rounds`` of the answer has [drafted tokens, accepted tokens] of each pass after the prompt's.
        """
        used = self._mode(mode, **how)
        self._share_cache(used, tokens)
        policy = used.engine.policy
        if policy and sinks is not None:
            policy.keep(sinks)
        evicted = policy.tokens if policy else 0
        self._records.clear()
        params = DrawParams(**sampling)
        started = time.perf_counter()
        steps = used.engine.generate(tokens, params, max_tokens=max_tokens, stop_ids=stop)
        out = [next(steps).token]
        before, judged, passes = used.tally(), used.judged(), len(self._records)
        first, cpu = time.perf_counter(), time.process_time()
        out += [step.token for step in steps]
        decode_s, cpu_s = time.perf_counter() - first, time.process_time() - cpu
        self._prompt = tokens
        used.notices += [line for line in self._notices if line not in used.notices]
        self._notices.clear()
        records, after = self._records[passes:], used.tally()
        return {
            "prefill_s": first - started,
            "decode_s": decode_s,
            "cpu_s": cpu_s,
            "tokens": out,
            "draft_s": after.draft_s - before.draft_s,
            "predicted_s": after.predicted_s - before.predicted_s,
            "predicted_plain_s": after.forecast.plain_s - before.forecast.plain_s,
            "by_drafter": _since(after.of_drafters(), before.of_drafters()),
            "judged": _since(used.judged(), judged),
            "by_depth": _since(*(list(map(astuple, tally.by_depth)) for tally in (after, before))),
            "verify_s": sum(record.seconds or 0.0 for record in records),
            "rounds": [[record.drafted, len(record.path)] for record in records],
            "evicted": policy.tokens - evicted if policy else 0,
            "drafters": used.engine.speculation.nbytes() if used.engine.speculation else {},
            "notices": [] if mode == OFF else used.notices,
        }

    def logits(self, tokens: list[int], path: str) -> dict[str, Any]:
        """Write the logits f32[T, V] after each of ``tokens``, from an empty cache, to the .npy ``path``.

        Tokens are evicted as in a reply, where later ones are not known. ``passes`` of the answer has
        [tokens, filled slots after it] of each pass.
        """
        forward = self.model.single.forward
        policy = policy_for(self.run.when_full, forward, lookup_ahead)
        vocab = forward.spec.vocab_size
        rows = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(len(tokens), vocab))
        step = max(1, min(forward.caps.max_pass, ROWS_BYTES // (4 * vocab)))
        forward.rewind(0)
        start, passes = 0, []
        while start < len(tokens):
            end = start + (min(step, policy.room(tokens[: start + 1])) if policy else step)
            rows[start:end] = forward.extend(tokens[start:end], rows=Rows(full=True)).logits
            passes.append([end - start, forward.length])
            start = end
        rows.flush()
        return {"shape": list(rows.shape), "passes": passes}

    def fill(self, tokens: list[int]) -> dict[str, Any]:
        """Begin with these tokens in the cache."""
        forward = self.model.single.forward
        forward.rewind(0)
        step = forward.caps.max_pass
        for start in range(0, len(tokens), step):
            forward.extend(tokens[start : start + step])
        self._filled = len(tokens)
        return {}

    def extend(self, tokens: list[int]) -> dict[str, Any]:
        """Time a pass with logits of all rows, in s, and take it back."""
        forward = self.model.single.forward
        started = time.perf_counter()
        forward.extend(tokens, rows=ALL_ROWS)
        seconds = time.perf_counter() - started
        forward.rewind(self._filled)
        return {"seconds": seconds}

    def alone(self, texts: list[str]) -> dict[str, Any]:
        """Reply to texts one after the other, each in a conversation of its own."""
        chat, found = self._one_chat(), []
        for text in texts:
            chat.reset()
            reply = chat.reply(text) if self.model.loaded.template else chat.complete(text)
            reply.read()
            found.append(reply.tokens)
        return {"tokens": found}

    def together(self, texts: list[str]) -> dict[str, Any]:
        """Reply to texts in a batch. ``each`` of the answer has tokens per second by reply."""
        replies: list[Reply] = []
        with self.model.conversations(max_tokens=self.run.max_tokens) as several:
            several.measure()
            began = time.perf_counter()
            for answer in several.answers(texts, raw=self.model.loaded.template is None):
                if answer.reply is None:
                    assert answer.error is not None
                    raise answer.error
                replies.append(answer.reply)
            seconds = time.perf_counter() - began
            energy = several.together().energy.as_json()
        each = [len(one.tokens) / (one.stats.prefill_s + one.stats.decode_s) for one in replies]
        tokens = [reply.tokens for reply in replies]
        return {"tokens": tokens, "seconds": seconds, "each": each, "energy": energy}

    def memory(self) -> dict[str, int]:
        """Bytes of the target's weights that are resident now."""
        return {"weights_rss_bytes": mapped_rss_bytes(f"{self._path.name}/{WEIGHTS}")}

    def _heard(self, line: str) -> None:
        """Keep a line for the user, but for those that only count up."""
        if not _COUNTS_UP.fullmatch(line):
            self._notices.append(line)

    def _mode(self, name: str, prepared: bool = True, always: int = 0) -> Mode:
        """Return the engine for a drafter set. Within a memory level there is one, and plain decoding."""
        always = always or self.run.always
        key = name, prepared, always
        if key not in self._modes:
            runner = self.model.single
            named = self._prepared.draft(self.run.modes.get(name, name))
            drafting = replace(named, prepared=prepared)
            if always:
                drafting = replace(drafting, tokens=always, always=True)
            own = name != OFF and self.run.level
            engine = runner.engine if own else runner.engines_for(drafting, self._records.append)[0]
            if engine.policy:
                engine.policy.keep(self.run.sinks)
            self._modes[key] = Mode(engine)
        return self._modes[key]

    def _share_cache(self, used: Mode, tokens: Sequence[int]) -> None:
        """Keep the tokens of this very prompt that another drafter set fed, or within a level its own."""
        forward = self.model.single.forward
        if self.run.level:
            if used is not self._latest:
                used.engine.reset()
            self._latest = used
            return
        same = tokens == self._prompt and not used.engine.policy
        forward.rewind(min(len(tokens) if same else 0, forward.length))
        used.engine.adopt(tokens[: forward.length])

    def _one_chat(self) -> Chat:
        if self._chat is None:
            self._chat = self.model.chat(max_tokens=self.run.max_tokens)
        return self._chat

    def _plan(self) -> dict[str, Any]:
        budget, plan = self.model.budget, self.model.plan()
        assert budget is not None
        assert plan is not None
        wanted = {"kv": budget.wanted.kv, "context": budget.wanted.context}
        end = drafts_end(budget.facts, budget.wanted, elastic=self.run.context is None)
        return {"memory": {**plan.as_json(), "wanted": wanted}, "drafts_end": end}


def _since(after: Any, before: Any) -> Any:
    """Return the counts of ``after`` that were added since ``before``, which may lack some."""
    if isinstance(after, Mapping):
        return {name: _since(one, (before or {}).get(name)) for name, one in after.items()}
    if isinstance(after, list | tuple):
        return [_since(now, then) for now, then in zip_longest(after, before or ())]
    return after - (before or 0)


def _warm_up(forward: Forward) -> None:
    """Read the weights once, so that no figure has the time that takes."""
    forward.extend([0] * min(_WARM_UP_TOKENS, forward.capacity, forward.caps.max_pass), rows=ALL_ROWS)
    forward.rewind(0)
