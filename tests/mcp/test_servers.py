"""Tool servers in processes of their own: tools, results, faults, time, and their end."""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mcp.types import Tool

from edgedec.core.errors import UsageError
from edgedec.grammar.spec import GrammarSpec
from edgedec.mcp.config import ServerCommand
from edgedec.mcp.servers import ToolServers
from edgedec.mcp.tool import MOST_RESULT_CHARS, McpTool, named_apart
from edgedec.session.tool_schemas import bound_functions
from edgedec.text.tool_calls.call_grammar import strict_grammar
from edgedec.text.tool_calls.hermes import HERMES
from tests.grammar.support import constraint, tokenizer

SCRIPT = str(Path(__file__).with_name("tool_server.py"))


def command(name: str = "test", *words: str, **more: Any) -> ServerCommand:
    return ServerCommand(name, sys.executable, (SCRIPT, *words), **more)


def tool(servers: ToolServers, name: str) -> McpTool:
    found = servers.named(name)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def servers() -> Iterator[ToolServers]:
    with ToolServers([command(variables={"COLOUR": "red"})], pytest.fail) as servers:
        yield servers


def test_tools_have_their_schema_and_are_called(servers: ToolServers) -> None:
    add = tool(servers, "add")
    assert add.as_openai()["function"]["description"] == "Add two numbers."
    assert set(add.schema["properties"]) == {"a", "b"}
    outcome = servers.call(add, {"a": 2, "b": 40})
    assert (outcome.text, outcome.failed) == ("42", False)


def test_arguments_keep_the_schema(servers: ToolServers) -> None:
    add = tool(servers, "add")
    add.check({"a": 1, "b": 2})
    for wrong, words in (({"a": "one", "b": 2}, "^a: 'one' is not of type"), ({"a": 1}, "'b' is a required")):
        with pytest.raises(UsageError, match=words):
            add.check(wrong)


def test_results_are_bounded(servers: ToolServers) -> None:
    text = servers.call(tool(servers, "long_text"), {"count": MOST_RESULT_CHARS + 7}).text
    assert text.endswith("\n[7 more characters were cut]")
    assert len(text) < MOST_RESULT_CHARS + 50


def test_variables_of_the_file_reach_a_server_and_other_ones_do_not(
    servers: ToolServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = tool(servers, "variable")
    assert servers.call(read, {"name": "COLOUR"}).text == "red"
    monkeypatch.setenv("EDGEDEC_REMOTE_KEY", "secret")
    with ToolServers([command()], pytest.fail) as again:
        assert again.call(tool(again, "variable"), {"name": "EDGEDEC_REMOTE_KEY"}).text == "none"


def test_a_tool_that_fails_says_why(servers: ToolServers) -> None:
    outcome = servers.call(tool(servers, "fail"), {})
    assert outcome.failed
    assert "fail" in outcome.text


def test_a_call_takes_no_longer_than_its_server_may() -> None:
    with ToolServers([command(call_s=0.5)], pytest.fail) as servers:
        began = time.monotonic()
        outcome = servers.call(tool(servers, "sleep"), {"seconds": 30.0})
        assert outcome.failed
        assert "longer than 0.5 s" in outcome.text
        assert time.monotonic() - began < 20


def test_a_server_that_dies_is_an_outcome_and_others_go_on() -> None:
    with ToolServers([command("one"), command("two")], pytest.fail) as servers:
        assert servers.call(tool(servers, "one_die"), {}).failed
        assert servers.call(tool(servers, "one_add"), {"a": 1, "b": 1}).failed
        assert servers.call(tool(servers, "two_add"), {"a": 1, "b": 1}).text == "2"


def test_servers_that_do_not_start_cost_a_line_each() -> None:
    lines: list[str] = []
    none = ServerCommand("none", "no-such-program-here")
    with ToolServers([none, command("broken", "broken"), command("good")], lines.append) as servers:
        assert servers.named("add")
    assert len(lines) == 2
    assert lines[0].startswith("the server none is left out: ")
    assert lines[1] == "the server broken is left out: no licence was found"


def test_the_end_leaves_no_thread_and_no_process() -> None:
    before = set(threading.enumerate())
    servers = ToolServers([command()], pytest.fail)
    pid = int(servers.call(tool(servers, "process"), {}).text)
    servers.close()
    assert set(threading.enumerate()) <= before
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def listed(*names: str, server: str = "test") -> list[McpTool]:
    return named_apart([(command(server), Tool(name=one, input_schema={"type": "object"})) for one in names])


def test_names_of_tools_become_such_that_every_model_can_call() -> None:
    """Dots are allowed by the protocol, spaces and slashes occur; forms of calls know none of them."""
    names = [
        "docs.appendText",
        "Create CIFS Share",
        "basic/music",
        "a.b",
        "a_b",
        "a b",
        "",
        "x" * 300,
        "größe",
    ]
    found = listed(*names)
    assert [tool.own for tool in found] == names
    assert len({tool.name for tool in found}) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", tool.name) for tool in found)
    assert found[0].name == "docs_appendText"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {},
        {"type": "object", "oneOf": [{"required": ["app"]}, {"required": ["id"]}], "properties": {"app": {}}},
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "properties": None},
    ],
)
def test_schemas_without_properties_and_with_choices_at_their_root_take_arguments(schema: Any) -> None:
    """Other clients send {} for such tools, or fail to load them."""
    [one] = named_apart([(command(), SimpleNamespace(name="open", input_schema=schema, description=None))])
    functions, _ = bound_functions([one.as_openai()["function"]], bind=True)
    text = strict_grammar(HERMES, functions, {})
    assert text is not None
    form = constraint(GrammarSpec.of(grammar=text))
    said = '<tool_call>\n{"name": "open", "arguments": {"app": "edge"}}\n</tool_call>'
    assert all(form.advance(token) for token in tokenizer().encode(said, add_bos=False))
