"""EdgeDec in a long chat within a budget of memory: the session that ``edgedec chat`` runs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from edgedec.bench.peers import edgedec_memory_peer as bounded
from edgedec.core.errors import ContextFullError
from edgedec.runtime.drafting import AUTO, speculation_for
from edgedec.session.chat import Session
from edgedec.session.reply import Settings
from edgedec.session.saved_session import ModelId, restore_session, save_session
from edgedec.telemetry.process import peak_rss_bytes, rss_bytes


class Peer(bounded.Peer):
    def open(self, **settings: Any) -> dict[str, Any]:
        """Begin a chat with replies of at most ``max_tokens``; the other settings are those of sides within a
        budget.
        """
        most = settings.pop("max_tokens")
        facts = super().open(**settings)
        if "refused" in facts:
            return facts
        model, notices = self.model, facts.setdefault("notices", [])
        self._session = Session(
            model.forward,
            model.tokenizer,
            model.template,
            Settings(max_tokens=most),
            speculation=speculation_for(
                model,
                self.drafting(AUTO),
                self.costs,
                clock=time.perf_counter,
                notice=notices.append,
                open_draft=self.open_draft,
            ),
        )
        return facts

    def say(self, text: str) -> dict[str, Any]:
        """One turn of the user and its reply, whatever has to be dropped for it; and memory after it."""
        session, before = self._session, self._users()
        found: dict[str, Any] = {}
        try:
            for _ in session.reply(text):
                pass
        except ContextFullError as error:
            found["refused"] = error.message
        else:
            assert session.last is not None
            stats = session.last.stats
            found |= {
                "tokens": session.last.tokens,
                "prompt_tokens": stats.prompt_tokens,
                "prefill_s": stats.prefill_s,
                "decode_s": stats.decode_s,
                "dropped": before + 1 - self._users(),
            }
        return {**found, "rss_bytes": rss_bytes(), "peak_rss_bytes": peak_rss_bytes()}

    def save(self, path: str) -> dict[str, Any]:
        """Write the session to a file, as ``edgedec chat --session`` does after every turn."""
        save_session(Path(path), self._session, ModelId.of(self.model.manifest))
        return {}

    def restore(self, path: str) -> dict[str, Any]:
        """Go on with the session of a file."""
        notices: list[str] = []
        restore_session(Path(path), self._session, ModelId.of(self.model.manifest), notices.append)
        return {"notices": notices}

    def _users(self) -> int:
        return sum(message.role == "user" for message in self._session.messages)
