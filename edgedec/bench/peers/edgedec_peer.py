"""EdgeDec as a side of a comparison: the engine, chat and batch that its commands run, and nothing faster."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from edgedec import __version__
from edgedec.bench.harness.memory_levels import FULL, drafts_end
from edgedec.bench.harness.runtimes import OwnRun
from edgedec.core.errors import ContextFullError, MemoryBudgetError
from edgedec.core.manifest import WEIGHTS, Manifest
from edgedec.core.rows import ALL_ROWS, Rows
from edgedec.decode.engine import Engine, PassRecord
from edgedec.decode.speculation import Speculation
from edgedec.draft import lookup_ahead
from edgedec.eviction.policies import policy_for
from edgedec.memory.footprint import MemoryChoice
from edgedec.runtime.budget import Budget, within
from edgedec.runtime.drafting import OFF, Drafting, speculation_for
from edgedec.runtime.loaded_model import LoadedModel, kv_of_draft, load_model
from edgedec.sampling import SamplingParams, drawing_bytes
from edgedec.session.chat import Session
from edgedec.session.conversations import Conversations, check_several
from edgedec.session.reply import Reply, Settings
from edgedec.session.saved_session import ModelId, restore_session, save_session
from edgedec.telemetry.process import mapped_rss_bytes, peak_rss_bytes, rss_bytes

ROWS_BYTES = 64 << 20
"""Most bytes of logits rows of one pass."""
_WARM_UP_TOKENS = 16


class Mode:
    """One way to draft: an engine with drafters of its own, and records of its passes."""

    def __init__(self, peer: Peer, drafting: Drafting) -> None:
        self.notices: list[str] = []
        self.records: list[PassRecord] = []
        self.speculation = peer.speculation(drafting, self.notices)
        ahead = self.speculation.ahead if self.speculation else lookup_ahead
        policy = policy_for(peer.run.when_full, peer.model.forward, ahead)
        if policy:
            policy.keep(peer.run.sinks)
        self.engine = Engine(
            peer.model.forward,
            speculation=self.speculation,
            observe=self.records.append,
            clock=time.perf_counter,
            policy=policy,
        )

    @property
    def draft_s(self) -> float:
        return self.speculation.tally.draft_s if self.speculation else 0.0


class Peer:
    def open(self, model: str, run: dict[str, Any]) -> dict[str, Any]:
        """Load the bundle at ``model``. ``run``: the fields of ``OwnRun``.

        The answer has ``capacity``, ``kv``, and with a memory level ``memory`` (the plan) and ``drafts_end``
        (see ``memory_levels``), or ``refused`` when the budget is too small for anything.
        """
        self.run = OwnRun.read(run)
        self._modes: dict[str, Mode] = {}
        self._prompt: list[int] = []
        self._latest: Mode | None = None
        self._bundle = Path(model).resolve().name
        self.model = load_model(
            Path(model), threads=self.run.threads, context=self.run.context, kv=self.run.kv
        )
        self._drafting = Drafting(self.run.draft)
        self._draft_model: LoadedModel | None = None
        self._choice: MemoryChoice | None = None
        self._session: Session | None = None
        if self.run.conversations:
            check_several(self.model, self.run.conversations, self._drafting)
        facts: dict[str, Any] = {"version": __version__, "isa": self.model.isa}
        if self.run.level:
            try:
                facts |= self._plan()
            except MemoryBudgetError as error:
                return {**facts, "refused": error.message}
        forward = self.model.forward
        forward.extend([0] * min(_WARM_UP_TOKENS, forward.capacity, forward.caps.max_pass), rows=ALL_ROWS)
        forward.rewind(0)
        facts |= {"capacity": forward.capacity, "kv": self.model.kv, "planned_bytes": forward.nbytes()}
        return facts

    def generate(self, tokens: list[int], max_tokens: int) -> dict[str, Any]:
        """Continue greedily by exactly ``max_tokens`` tokens from an empty cache. Times are in seconds."""
        mode = self._mode(OFF)
        mode.engine.reset()
        started = time.perf_counter()
        steps = mode.engine.generate(tokens, SamplingParams(), max_tokens=max_tokens, stop_ids=())
        out = [next(steps).token]
        first = time.perf_counter()
        out += [step.token for step in steps]
        return {"prefill_s": first - started, "decode_s": time.perf_counter() - first, "tokens": out}

    def reply(
        self, tokens: list[int], max_tokens: int, stop: list[int], mode: str, sampling: dict[str, Any]
    ) -> dict[str, Any]:
        """Continue ``tokens`` until one of ``stop``, with drafts as ``mode`` says.

        ``rounds`` of the answer has [drafted tokens, accepted tokens] of each pass after the prompt's.
        """
        used = self._mode(mode)
        self._share_cache(used, tokens)
        used.records.clear()
        params = SamplingParams(**sampling)
        started = time.perf_counter()
        steps = used.engine.generate(tokens, params, max_tokens=max_tokens, stop_ids=stop)
        out = [next(steps).token]
        first, draft_s, passes = time.perf_counter(), used.draft_s, len(used.records)
        out += [step.token for step in steps]
        decode_s = time.perf_counter() - first
        self._prompt = tokens
        records = used.records[passes:]
        return {
            "prefill_s": first - started,
            "decode_s": decode_s,
            "tokens": out,
            "draft_s": used.draft_s - draft_s,
            "verify_s": sum(record.seconds or 0.0 for record in records),
            "rounds": [[record.drafted, len(record.path)] for record in records],
            "drafters": used.speculation.nbytes() if used.speculation else {},
            "notices": [] if mode == OFF else used.notices,
        }

    def logits(self, tokens: list[int], path: str) -> dict[str, Any]:
        """Write the logits f32[T, V] after each of ``tokens``, from an empty cache, to the .npy ``path``.

        Tokens are evicted as in a reply, where later ones are not known.
        """
        forward = self.model.forward
        policy = policy_for(self.run.when_full, forward, lookup_ahead)
        vocab = forward.spec.vocab_size
        rows = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(len(tokens), vocab))
        step = max(1, min(forward.caps.max_pass, ROWS_BYTES // (4 * vocab)))
        forward.rewind(0)
        start = 0
        while start < len(tokens):
            end = start + (min(step, policy.room(tokens[: start + 1])) if policy else step)
            rows[start:end] = forward.extend(tokens[start:end], rows=Rows(full=True)).logits
            start = end
        rows.flush()
        return {"shape": list(rows.shape)}

    def say(self, text: str) -> dict[str, Any]:
        """Take one turn of the user in a chat, reply, and report the memory after it."""
        chat, before = self._chat(), self._user_turns()
        found: dict[str, Any] = {}
        try:
            for _ in chat.reply(text):
                pass
        except ContextFullError as error:
            found["refused"] = error.message
        else:
            assert chat.last is not None
            stats = chat.last.stats
            found |= {
                "tokens": chat.last.tokens,
                "prompt_tokens": stats.prompt_tokens,
                "prefill_s": stats.prefill_s,
                "decode_s": stats.decode_s,
                "dropped": before + 1 - self._user_turns(),
            }
        return {**found, "rss_bytes": rss_bytes(), "peak_rss_bytes": peak_rss_bytes()}

    def save(self, path: str) -> dict[str, Any]:
        """Write the chat to a file, as after every turn of a saved session."""
        save_session(Path(path), self._chat(), ModelId.of(self.model.manifest))
        return {}

    def restore(self, path: str) -> dict[str, Any]:
        """Continue the chat of a file."""
        notices: list[str] = []
        restore_session(Path(path), self._chat(), ModelId.of(self.model.manifest), notices.append)
        return {"notices": notices}

    def alone(self, texts: list[str]) -> dict[str, Any]:
        """Reply to texts one after the other, each in a conversation of its own, without drafts."""
        chat = Session(self.model.forward, self.model.tokenizer, self.model.template, self._settings())
        found = []
        for text in texts:
            chat.reset()
            for _ in chat.reply(text) if self.model.template else chat.complete(text):
                pass
            assert chat.last is not None
            found.append(chat.last.tokens)
        return {"tokens": found}

    def together(self, texts: list[str]) -> dict[str, Any]:
        """Reply to texts in a batch. ``each`` of the answer has tokens per second by reply."""
        replies: list[Reply] = []
        assert self.run.conversations is not None
        with Conversations(
            self.model, self.run.conversations, self._settings(), drafting=self._drafting,
            costs=self._costs, choice=self._choice,
        ) as several:  # fmt: skip
            began = time.perf_counter()
            for answer in several.answers(texts, raw=self.model.template is None):
                if answer.reply is None:
                    assert answer.error is not None
                    raise answer.error
                replies.append(answer.reply)
            seconds = time.perf_counter() - began
        each = [len(one.tokens) / (one.stats.prefill_s + one.stats.decode_s) for one in replies]
        return {"tokens": [reply.tokens for reply in replies], "seconds": seconds, "each": each}

    def memory(self) -> dict[str, int]:
        """Bytes of the target's weights that are resident now."""
        return {"weights_rss_bytes": mapped_rss_bytes(f"{self._bundle}/{WEIGHTS}")}

    def speculation(self, drafting: Drafting, notices: list[str]) -> Speculation | None:
        """Make drafters that have learned nothing yet; None for plain decoding."""
        return speculation_for(
            self.model,
            drafting,
            self._costs,
            clock=time.perf_counter,
            notice=notices.append,
            open_draft=self._open_draft,
        )

    @property
    def _costs(self) -> Path:
        return Path(self.run.home) / "costs"

    def _settings(self) -> Settings:
        return Settings(self.run.sampling, self.run.max_tokens)

    def _mode(self, name: str) -> Mode:
        if name not in self._modes:
            within_level = self.run.level and name != OFF
            self._modes[name] = Mode(self, self._drafting if within_level else Drafting(name))
        return self._modes[name]

    def _share_cache(self, used: Mode, tokens: Sequence[int]) -> None:
        """Keep the tokens of this very prompt that another way to draft fed, or within a level its own."""
        forward = self.model.forward
        if self.run.level:
            if used is not self._latest:
                used.engine.reset()
            self._latest = used
            return
        same = tokens == self._prompt and not used.engine.policy
        forward.rewind(min(len(tokens) if same else 0, forward.length))
        used.engine.adopt(tokens[: forward.length])

    def _chat(self) -> Session:
        if self._session is None:
            model = self.model
            self._session = Session(
                model.forward, model.tokenizer, model.template, self._settings(),
                speculation=self.speculation(self._drafting, []),
            )  # fmt: skip
        return self._session

    def _user_turns(self) -> int:
        return sum(message.role == "user" for message in self._chat().messages)

    def _open_draft(self, name: str) -> LoadedModel:
        if self._draft_model:
            return self._draft_model
        bundle = Path(self.run.draft_models[name])
        manifest = Manifest.load(bundle)
        context = min(self.model.forward.capacity, manifest.spec.context_length)
        kv = kv_of_draft(self.model, manifest)
        return load_model(bundle, threads=self.model.threads, context=context, kv=kv)

    def _plan(self) -> dict[str, Any]:
        """Make the model fit its memory level. Raises MemoryBudgetError."""
        level, asked = self.run.level or FULL, self._drafting
        draft_model = self._open_draft(asked.models[0]) if asked.models else None
        budget: Budget = within(
            level.budget, self.model, asked, elastic=self.run.context is None,
            drawing=drawing_bytes(self.run.sampling), drafter=draft_model,
            conversations=self.run.conversations or 1,
        )  # fmt: skip
        self._choice = budget.plan.choice
        self._draft_model = draft_model if budget.plan.choice.model_drafts else None
        self.model = replace(self.model, kv=budget.plan.choice.kv)
        self._drafting = budget.drafting(asked)
        wanted = {"kv": budget.wanted.kv, "context": budget.wanted.context}
        end = drafts_end(budget.known, budget.wanted, elastic=self.run.context is None)
        return {"memory": {**budget.as_json(), "wanted": wanted}, "drafts_end": end}
