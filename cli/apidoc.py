"""Writes the page about the Python API from its docstrings: ``python -m edgedec.cli.apidoc docs/api.md``."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path

import edgedec
from edgedec.disk.files import atomic_path
from edgedec.session.public_names import LISTED

HEAD = """# Python API

<!-- Written by `python -m edgedec.cli.apidoc docs/api.md`; do not edit. -->

```python
import edgedec

with edgedec.open("smollm2-135m") as model, model.chat() as chat:
    for piece in chat.reply("What is 2+2?"):
        print(piece, end="")
```

Every example below runs as a test with the real model SmolLM2-135M and greedy decoding:
`python -m pytest -m slow tests/api`.
"""
_ERRORS = "Errors"


def document() -> str:
    """Return the whole page."""
    names = [name for name in edgedec.__all__ if not name.startswith("_")]
    errors = [name for name in names if name.endswith("Error")]
    parts = [HEAD]
    for name in sorted((one for one in names if one not in errors), key=_rank):
        parts += _entry(f"edgedec.{name}", getattr(edgedec, name))
    parts.append(f"## {_ERRORS}\n\nAll are subclasses of `edgedec.EdgeDecError`, in `message` one line.\n")
    parts += [f"- `edgedec.{name}`: {_first_line(getattr(edgedec, name))}" for name in errors]
    return "\n".join(parts).rstrip() + "\n"


def _rank(name: str) -> tuple[int, str]:
    order = ["open", "Model", "Chat", "Message", "Reply", "Conversations", "RunConfig", "SamplingParams"]
    return (order.index(name) if name in order else len(order), name)


def _entry(name: str, thing: object) -> Iterator[str]:
    yield f"## {name}\n"
    if not inspect.isclass(thing):
        yield f"```python\n{name}{_signature(thing)}\n```\n"
        yield _prose(thing)
        return
    yield _prose(thing)
    if is_dataclass(thing):
        yield from _fields(thing)
    listed = getattr(vars(thing).get("__dir__"), LISTED, None)
    for member, value in vars(thing).items():
        if member.startswith("_") or not inspect.getdoc(value) or (listed and member not in listed):
            continue
        if isinstance(value, property):
            yield f"### .{member}\n\n{_prose(value)}"
        elif inspect.isfunction(value):
            yield f"### .{member}\n\n```python\n{member}{_signature(value)}\n```\n\n{_prose(value)}"


def _fields(kind: type) -> Iterator[str]:
    notes = _field_notes(kind)
    yield "| field | default | meaning |\n|---|---|---|"
    for field in fields(kind):
        default = "" if field.default is MISSING else f"`{field.default!r}`"
        yield f"| `{field.name}` | {default} | {notes.get(field.name, '')} |"
    yield ""


def _field_notes(kind: type) -> dict[str, str]:
    """Return the strings below the fields of a class and its bases, on one line each."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__[:-1]):
        found |= _own_field_notes(base)
    return found


def _own_field_notes(kind: type) -> dict[str, str]:
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(body, ast.ClassDef)
    found: dict[str, str] = {}
    for field, note in zip(body.body, body.body[1:], strict=False):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        if isinstance(note, ast.Expr) and isinstance(note.value, ast.Constant):
            found[field.target.id] = _marked(" ".join(str(note.value.value).split()))
    return found


def _signature(function: object) -> str:
    signature = str(inspect.signature(function))  # type: ignore[arg-type]
    short = re.sub(r"\bself(, \*)?(, )?", lambda found: "*, " if found[1] else "", signature)
    short = re.sub(r"<function (\w+) at 0x[0-9a-f]+>", r"\1", short).replace("'", "")
    if len(short) <= 90:
        return short
    inside, _, result = short[1:].rpartition(")")
    return "(\n" + textwrap.indent(re.sub(r", (?=[*\w]+[:,]|\*)", ",\n", inside), "    ") + f",\n){result}"


def _prose(thing: object) -> str:
    """Turn a docstring into Markdown, its examples into code blocks."""
    found: list[str] = []
    in_code = False
    for line in (inspect.getdoc(thing) or "").splitlines():
        starts = line.lstrip().startswith((">>>", "..."))
        if starts and not in_code:
            found.append("```python")
            in_code = True
        elif in_code and not line.strip():
            found.append("```")
            in_code = False
        found.append(line.replace("  # doctest: +SKIP", "") if in_code else _marked(line))
    if in_code:
        found.append("```")
    return "\n".join(found) + "\n"


def _marked(text: str) -> str:
    return text.replace("``", "`")


def _first_line(thing: object) -> str:
    return _marked((inspect.getdoc(thing) or "").partition("\n")[0])


if __name__ == "__main__":
    with atomic_path(Path(sys.argv[1])) as temporary:
        temporary.write_text(document(), encoding="utf-8", newline="\n")
