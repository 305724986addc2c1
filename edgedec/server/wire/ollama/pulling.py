"""The body that asks for a model to be fetched, and the steps of it, in Ollama's form."""

from __future__ import annotations

from typing import Any, ClassVar

from edgedec.server.wire.body import Refusal, RequestBody
from edgedec.server.wire.ollama.request import plain_name

DONE = {"status": "success"}


class ModelBody(RequestBody):
    """The body of requests about a model, which old clients call ``name``."""

    model: str | None = None
    name: str | None = None

    harmless: ClassVar = frozenset({"options", "verbose"})

    @property
    def named(self) -> str:
        """The model's name; "" for none."""
        return plain_name(self.model or self.name or "")


class PullBody(ModelBody):
    """The body of ``POST /api/pull``."""

    stream: bool = True

    refused: ClassVar = {"insecure": Refusal("models come from where the server's own pulls do", False)}


def step(name: str, stage: str, done: int, total: int) -> dict[str, Any]:
    """Return a step: of a download and of what follows it."""
    status = f"pulling {name}" if stage == "download" else stage
    counts = {"completed": done, "total": total} if total else {}
    return {"status": status, "digest": stage, **counts}
