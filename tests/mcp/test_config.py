"""The file that names tool servers: what it may say, and one line about each fault."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from edgedec.core.errors import BadFileError, EdgeDecError, NotFoundError, UnsupportedError
from edgedec.mcp.config import ServerCommand, read_servers


def written(folder: Path, **server: Any) -> Path:
    path = folder / "servers.json"
    path.write_text(json.dumps({"mcpServers": {"files": server}}), encoding="utf-8")
    return path


def test_a_file_of_another_program_is_read_as_it_is(tmp_path: Path) -> None:
    path = written(tmp_path, command="npx", args=["-y", "server"], env={"A": "b"}, disabled=False)
    assert read_servers(path) == [ServerCommand("files", "npx", ("-y", "server"), {"A": "b"})]


def test_tools_that_need_no_question(tmp_path: Path) -> None:
    [one] = read_servers(written(tmp_path, command="x", allow=["read"], timeout=5))
    assert one.allows("read")
    assert not one.allows("write")
    assert one.call_s == 5
    [every] = read_servers(written(tmp_path, command="x", allow=["*"]))
    assert every.allows("write")


FAULTS: dict[str, tuple[type[EdgeDecError], dict[str, Any]]] = {
    "has no command": (BadFileError, {"command": " "}),
    "are lists of texts": (BadFileError, {"command": "x", "args": "-y"}),
    "has texts by name": (BadFileError, {"command": "x", "env": {"A": 1}}),
    "is no number of seconds": (BadFileError, {"command": "x", "timeout": True}),
    "is elsewhere": (UnsupportedError, {"url": "https://example.org/mcp"}),
}


@pytest.mark.parametrize("words", FAULTS)
def test_faults_of_a_server(words: str, tmp_path: Path) -> None:
    kind, stated = FAULTS[words]
    with pytest.raises(kind, match=words):
        read_servers(written(tmp_path, **stated))


@pytest.mark.parametrize("text", ["", "[]", "{", '{"mcpServers": []}', '{"mcpServers": {}}', "[" * 100_000])
def test_files_that_name_nothing(text: str, tmp_path: Path) -> None:
    path = tmp_path / "servers.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BadFileError, match=r"servers\.json"):
        read_servers(path)
    with pytest.raises(NotFoundError):
        read_servers(tmp_path / "none.json")
