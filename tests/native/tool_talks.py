"""Conversations with tools, calls and results, and the sources of templates that write them."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgedec.bundle.manifest import FileEntry, Manifest
from edgedec.disk.digest import sha256_hex
from edgedec.text.template_inputs import complete_tool
from tests.fixtures.files import replace_file
from tests.text.tool_calls.forms import FORMS, NOW, WEATHER

_FILES = Path(__file__).parents[1].glob("[rt]e*/templates/*.jinja")
SOURCES = {path.stem: path.read_text(encoding="utf-8") for path in sorted(_FILES)}
SOURCES |= {f"form of {name}": form.template.source for name, form in FORMS.items()}

BOOK: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "book",
        "description": 'Book a <b>"trip"</b> & more: <|im_end|>',
        "parameters": {
            "type": "object",
            "properties": {
                "to": {"type": "string", "description": "where é日本", "enum": ["a", "b"]},
                "n": {"type": ["integer", "null"], "default": 2, "minimum": 0.5},
                "deep": {"type": "array", "items": {"properties": {"x": {"type": "boolean"}}}},
                "any": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            },
            "required": ["to"],
        },
    },
}
TOOLS = [complete_tool(tool) for tool in (WEATHER, NOW, BOOK)]
ARGUMENTS = {
    "town": 'Köln <&> "q"\n',
    "days": 3,
    "more": {"a": {"b": [1, 2.5, True, None, "x"]}},
    "list": [],
    "far": 1e22,
    "zero": -0.0,
}
USER = {"role": "user", "content": " Hi é? "}
SYSTEM = {"role": "system", "content": "Be brief. "}
RESULT = {"role": "tool", "content": 'Rain {"a": 1}', "name": "weather", "tool_call_id": "abc123456"}


def call(arguments: Any, id: str = "abc123456") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": "weather", "arguments": arguments}}


def asked(*calls: dict[str, Any], content: str = "", **fields: str) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **fields, "tool_calls": list(calls)}


TALKS: dict[str, list[dict[str, Any]]] = {
    "a question": [USER],
    "a system message": [SYSTEM, USER],
    "a call": [USER, asked(call(ARGUMENTS)), RESULT],
    "arguments as text": [USER, asked(call(json.dumps(ARGUMENTS))), RESULT],
    "arguments that were cut": [USER, asked(call('{"town": "x')), RESULT],
    "two calls": [
        SYSTEM,
        USER,
        asked(call(ARGUMENTS), call({}, "abc123457"), content="I look."),
        RESULT,
        {**RESULT, "tool_call_id": "abc123457"},
        {"role": "assistant", "content": "<think>\nx\n</think>\n\nIt rains."},
        USER,
    ],
    "thoughts": [
        USER,
        asked(call(ARGUMENTS), reasoning_content="hm"),
        RESULT,
        {"role": "assistant", "content": "ok", "reasoning_content": "so"},
        USER,
    ],
}


def with_template(bundle: Path, folder: Path, source: str) -> Path:
    """A copy of a bundle with another chat template."""
    copy = folder / "copy"
    shutil.copytree(bundle, copy)
    content, manifest = source.encode(), Manifest.load(bundle)
    replace_file(copy / "chat_template.jinja", content)
    entry = FileEntry(len(content), sha256_hex(content))
    replace(manifest, files={**manifest.files, "chat_template.jinja": entry}).save(copy)
    return copy
