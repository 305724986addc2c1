"""One chat within a memory budget, as a peer of the bench's worker processes: see ``chat``."""

from __future__ import annotations

from typing import Any

import edgedec
from edgedec.core.errors import ContextFullError, MemoryBudgetError
from edgedec.session.chat import Chat
from edgedec.telemetry.process import peak_rss_bytes, rss_bytes


class Peer:
    def open(self, model: str, config: dict[str, Any], max_tokens: int) -> dict[str, Any]:
        self.notices: list[str] = []
        greedy = edgedec.SamplingParams.greedy()
        try:
            self.model = edgedec.open(
                model, edgedec.RunConfig(**config, sampling=greedy), notice=self.notices.append
            )
        except MemoryBudgetError as error:
            return {"refused": error.message}
        self.chat: Chat = self.model.chat(max_tokens=max_tokens)
        budget = self.model.budget
        return {"capacity": self.model.context, "memory": budget.as_json() if budget else {}}

    def say(self, text: str) -> dict[str, Any]:
        """Take one turn of the user, reply, and report the memory after it."""
        before = self._user_turns()
        found: dict[str, Any] = {}
        try:
            tokens = self._reply(text)
        except ContextFullError as error:
            found["refused"] = error.message
        else:
            assert self.chat.last is not None
            stats = self.chat.last.stats
            found |= {
                "tokens": tokens,
                "prompt_tokens": stats.prompt_tokens,
                "prefill_s": stats.prefill_s,
                "decode_s": stats.decode_s,
                "dropped": before + 1 - self._user_turns(),
            }
        return {**found, "rss_bytes": rss_bytes(), "peak_rss_bytes": peak_rss_bytes()}

    def save(self, path: str) -> dict[str, Any]:
        self.chat.save(path)
        return {}

    def restore(self, path: str) -> dict[str, Any]:
        self.notices.clear()
        self.chat.restore(path)
        return {"notices": self.notices}

    def _reply(self, text: str) -> list[int]:
        reply = self.chat.reply(text)
        reply.read()
        return reply.tokens

    def _user_turns(self) -> int:
        return sum(message.role == "user" for message in self.chat.messages)
