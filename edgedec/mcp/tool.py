"""A tool of a server, its calls' arguments, and results as a model reads them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from edgedec.core.errors import UsageError
from edgedec.core.quick_dataclass import dataclass
from edgedec.mcp.config import ServerCommand

MOST_RESULT_CHARS = 20_000
"""Longest result that a model gets; the context has to hold it."""
_OTHERS, _MOST_NAME = re.compile(r"[^A-Za-z0-9_-]"), 60


@dataclass(frozen=True, slots=True)
class McpTool:
    """A tool: ``name`` is that which the model calls, ``own`` that which its server has for it."""

    name: str
    own: str
    server: ServerCommand
    description: str
    schema: dict[str, Any]

    @property
    def allowed(self) -> bool:
        """Whether it is called without a question."""
        return self.server.allows(self.own)

    def as_openai(self) -> dict[str, Any]:
        """Return it in OpenAI's form."""
        described = {"name": self.name, "description": self.description, "parameters": self.schema}
        return {"type": "function", "function": described}

    def check(self, arguments: dict[str, Any]) -> None:
        """Raise UsageError where arguments do not keep the tool's schema."""
        from jsonschema import exceptions, validators

        try:
            kind = validators.validator_for(self.schema)
            wrong = exceptions.best_match(kind(self.schema).iter_errors(arguments))
        except Exception as error:  # the schema is the server's, and its faults have no common class
            raise UsageError(f"the schema of {self.name} is broken: {str(error)[:120]}") from error
        if wrong is not None:
            place = "/".join(map(str, wrong.absolute_path)) or "arguments"
            raise UsageError(f"{place}: {wrong.message[:200]}")


def named_apart(found: Iterable[tuple[ServerCommand, Any]]) -> list[McpTool]:
    """Return the tools of all servers, each with a name of its own that every form of calls can write.

    Other characters than letters, digits, ``_`` and ``-`` become ``_``. Where two names are alike, the
    server's comes before them, and where they still are, a number behind them.
    """
    listed = list(found)
    names = [_plain(tool.name) for _, tool in listed]
    tools: dict[str, McpTool] = {}
    for (server, tool), plain in zip(listed, names, strict=True):
        name = plain if names.count(plain) == 1 else _plain(f"{server.name}_{plain}")
        while name in tools:
            stem, _, number = name.rpartition("-")
            name = f"{stem}-{int(number) + 1}" if stem and number.isdecimal() else f"{name}-2"
        schema = dict(tool.input_schema or {"type": "object"})
        tools[name] = McpTool(name, tool.name, server, str(tool.description or ""), schema)
    return list(tools.values())


def _plain(name: str) -> str:
    return _OTHERS.sub("_", name)[:_MOST_NAME] or "tool"


def result_text(result: Any) -> str:
    """Return a result as text, at most ``MOST_RESULT_CHARS`` long; a word stands for what no text says."""
    parts = [_part(block) for block in result.content]
    if not parts and result.structured_content is not None:
        parts = [json.dumps(result.structured_content, ensure_ascii=False)]
    return bounded("\n".join(parts))


def bounded(text: str) -> str:
    """Return a text, or its beginning with a line about the rest."""
    if len(text) <= MOST_RESULT_CHARS:
        return text
    left = len(text) - MOST_RESULT_CHARS
    return f"{text[:MOST_RESULT_CHARS]}\n[{left} more characters were cut]"


def _part(block: Any) -> str:
    if block.type == "text":
        return str(block.text)
    inner = getattr(block, "resource", None)
    text = getattr(inner, "text", None)
    return str(text) if text is not None else f"[{block.type}, which cannot be read here]"
