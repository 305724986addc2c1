"""EdgeDec with several conversations at once, in a process of its own."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgedec.core.errors import MemoryBudgetError
from edgedec.memory import KvType
from edgedec.memory.footprint import MemoryChoice
from edgedec.runtime.budget import within
from edgedec.runtime.drafting import Drafting
from edgedec.runtime.loaded_model import load_model
from edgedec.sampling import SamplingParams, drawing_bytes
from edgedec.session.chat import Session
from edgedec.session.conversations import Conversations, check_several
from edgedec.session.reply import Reply, Settings


class Peer:
    def open(
        self, model: str, threads: int | None, context: int, kv: KvType, costs: str, count: int, draft: str,
        sampling: dict[str, Any], max_tokens: int, memory: int | None, elastic: bool,
    ) -> dict[str, Any]:  # fmt: skip
        """Load the bundle at ``model`` for ``count`` conversations, with ``memory`` within a budget: the
        answer has the plan then, as ``memory``, or ``refused`` when the budget is too small for anything.
        """
        self.model = load_model(Path(model), threads=threads, context=context, kv=kv)
        self._count, self._drafting, self._costs = count, Drafting(draft), Path(costs)
        self._settings = Settings(SamplingParams(**sampling), max_tokens)
        self._choice: MemoryChoice | None = None
        check_several(self.model, count, self._drafting)
        facts: dict[str, Any] = {}
        if memory is not None:
            drawing = drawing_bytes(self._settings.params)
            try:
                budget = within(
                    memory, self.model, self._drafting, elastic=elastic, drawing=drawing, conversations=count
                )
            except MemoryBudgetError as error:
                return {"refused": error.message}
            self._choice = budget.plan.choice
            self._drafting = budget.drafting(self._drafting)
            self.model = replace(self.model, kv=self._choice.kv)
            facts["memory"] = budget.as_json()
        return {"context": self.model.forward.capacity, "kv": self.model.kv, **facts}

    def alone(self, texts: list[str]) -> dict[str, Any]:
        """The tokens of every reply, one after the other, without drafts."""
        model = self.model
        session = Session(model.forward, model.tokenizer, model.template, self._settings)
        found = []
        for text in texts:
            session.reset()
            for _ in session.reply(text) if model.template else session.complete(text):
                pass
            assert session.last is not None
            found.append(session.last.tokens)
        return {"tokens": found}

    def together(self, texts: list[str]) -> dict[str, Any]:
        """The tokens of every reply, all conversations at work; ``seconds`` of all of it, and tokens per
        second of each reply.
        """
        replies: list[Reply] = []
        with Conversations(
            self.model,
            self._count,
            self._settings,
            drafting=self._drafting,
            costs=self._costs,
            choice=self._choice,
        ) as several:
            began = time.perf_counter()
            for answer in several.answers(texts, raw=self.model.template is None):
                if answer.reply is None:
                    assert answer.error is not None
                    raise answer.error
                replies.append(answer.reply)
            seconds = time.perf_counter() - began
        each = [len(one.tokens) / (one.stats.prefill_s + one.stats.decode_s) for one in replies]
        return {"tokens": [reply.tokens for reply in replies], "seconds": seconds, "each": each}
