"""Tools, conversations and replies with calls, as programs and models hand them to the native engine."""

from __future__ import annotations

import json
import random
import re
import tempfile
from functools import cache
from pathlib import Path

from edgedec import native
from edgedec.core.errors import BadFileError
from edgedec.native.text_probe import TextProbe
from edgedec.text.reply_reader import ReplyReader
from edgedec.text.template_program import program_of
from edgedec.text.thinking import ThinkingSplitter
from edgedec.text.tool_calls.families import FAMILIES
from edgedec.text.tool_calls.scanner import Scanner
from tests.fixtures.tiny_models import tiny_bundle
from tests.fuzz.mutate import mutate_bytes, mutate_json
from tests.fuzz.target import Files
from tests.native.tool_talks import BOOK, TALKS, with_template
from tests.text.tool_calls.forms import FORMS, NOW, WEATHER, pieces_of, read
from tests.text.tool_calls.test_families import ARGUMENTS, calls_of

TALK, REPLY = "talk.json", "reply.txt"
_FAMILY, _WHERE = "family", "bundle"
_TOOLS = [WEATHER, NOW]
_SCHEMAS = {tool["function"]["name"]: tool["function"].get("parameters") or {} for tool in _TOOLS}


def seeds(folder: Path) -> list[tuple[Files, Files]]:
    """Conversations of a bundle whose template writes tools, and replies of each family with their calls."""
    own = Path(tempfile.mkdtemp(dir=folder))  # other workers make theirs at the same time
    where = str(with_template(tiny_bundle(folder), own, FORMS["hermes"].template.source)).encode()
    talks = [{"tools": [*_TOOLS, BOOK], "messages": talk} for talk in TALKS.values()]
    out: list[tuple[Files, Files]] = [({TALK: json.dumps(talk).encode()}, {_WHERE: where}) for talk in talks]
    for family in FAMILIES:
        if family.name != "harmony":
            text = f"<think>Hm.</think>I look. {_written(family.name)}"
            out.append(({REPLY: text.encode()}, {_FAMILY: family.name.encode()}))
    return out


def _written(name: str) -> str:
    """Calls as the family's template writes them, rendered here: a worker starts no process."""
    source, asked = FORMS[name].template.source, {"role": "assistant", "content": ""}
    _probe().use_template(program_of(source), source)
    messages = [{"role": "user", "content": "x"}, {**asked, "tool_calls": calls_of(*ARGUMENTS)}]
    return _probe().render(messages, _TOOLS, raw=True).split("<assistant>")[1]


def mutate(files: Files, rng: random.Random) -> None:
    if REPLY in files:
        files[REPLY] = mutate_bytes(files[REPLY], rng)
    else:
        files[TALK] = mutate_json(files[TALK], rng)


def read_tools(folder: Path) -> None:
    """Reply to a conversation; or read a reply in pieces, as Python does."""
    if (folder / REPLY).exists():
        text = (folder / REPLY).read_bytes().decode("utf-8", "replace")
        # Letters of all scripts are told from their marks in Python alone.
        return _same_calls(re.sub(r"[^\x00-\x7f\xf6\ufffd]", "ö", text), (folder / _FAMILY).read_text())
    data = (folder / TALK).read_bytes().decode("utf-8", "replace").replace("\0", "")
    try:
        talk = json.loads(data)
    except (ValueError, RecursionError):
        talk = {"tools": data, "messages": data}
    if not isinstance(talk, dict):
        raise BadFileError(f"{TALK} is no object")
    tools, messages = (json.dumps(talk.get(key)) for key in ("tools", "messages"))
    model = _opened((folder / _WHERE).read_text())
    model._asked("reply", None, 0, tools=tools, messages=messages, max_tokens=2)
    return None


def _same_calls(text: str, name: str) -> None:
    [family] = [family for family in FAMILIES if family.name == name]
    splitter = ThinkingSplitter(begun=False, tags=("[THINK]", "[/THINK]"))
    theirs = read(ReplyReader(splitter, Scanner(), family, _SCHEMAS), [text])
    for step in (1, 7, len(text) + 1):
        pieces = list(pieces_of(text, step))
        ours = _probe().ask("calls", family=name, pieces=pieces, tools=_TOOLS, messages=[])
        assert ours["calls"] == [[called, given] for _, called, given in theirs.calls]
        assert "".join(ours["content"]) == theirs.content


@cache
def _probe() -> TextProbe:
    return TextProbe()


@cache
def _opened(bundle: str) -> native.NativeModel:
    return native.open(bundle, threads=1, context=512, draft="off")
