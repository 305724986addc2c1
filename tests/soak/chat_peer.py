"""One chat within a memory budget, as a peer of the bench's worker processes: see ``chat``."""

from __future__ import annotations

from typing import Any

import edgedec
from edgedec.system.memory import peak_rss_bytes, rss_bytes


class Peer:
    def open(self, model: str, config: dict[str, Any], max_tokens: int) -> dict[str, Any]:
        greedy = edgedec.SamplingParams.greedy()
        self.model = edgedec.open(model, edgedec.RunConfig(**config, sampling=greedy))
        self.chat = self.model.chat(max_tokens=max_tokens)
        plan = self.model.plan()
        return {"capacity": self.model.context, "memory": plan.as_json() if plan else {}}

    def say(self, text: str) -> dict[str, Any]:
        """Take one turn of the user, reply, and report the memory after it."""
        before = self._user_turns()
        reply = self.chat.reply(text)
        reply.read()
        return {
            "tokens": reply.tokens,
            "prompt_tokens": reply.stats.prompt_tokens,
            "dropped": before + 1 - self._user_turns(),
            "rss_bytes": rss_bytes(),
            "peak_rss_bytes": peak_rss_bytes(),
        }

    def save(self, path: str) -> dict[str, Any]:
        self.chat.save(path)
        return {}

    def restore(self, path: str) -> dict[str, Any]:
        self.chat.restore(path)
        return {}

    def _user_turns(self) -> int:
        return sum(message.role == "user" for message in self.chat.messages)
