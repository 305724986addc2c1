"""The page's modules without a browser: trees of messages, files of them, streams cut anywhere, words."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.server.page.test_files import PAGE

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy that node takes for modules."""
    folder = tmp_path_factory.mktemp("page")
    shutil.copytree(PAGE / "js", folder / "js")
    (folder / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    return folder


def run(folder: Path, script: str) -> Any:
    """Run a script that ends with `out(value)`, and return the value."""
    text = f"const out = (value) => console.log(JSON.stringify(value));\n{script}"
    (folder / "test.js").write_text(text, encoding="utf-8")
    done = subprocess.run(
        ["node", "test.js"], cwd=folder, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


TREE = """
import * as tree from "./js/conversation.js";
const one = tree.create({ model: "m", system: "Be short." });
const asked = tree.add(one, "user", null, { text: "first\\nline" });
const reply = tree.add(one, "assistant", asked.id, { text: "reply", state: "whole" });
const texts = () => tree.path(one).map((message) => message.text);
"""


def test_an_edited_message_begins_a_branch_and_the_older_one_stays(modules: Path) -> None:
    script = """
    const other = tree.add(one, "user", null, { text: "second" });
    tree.add(one, "assistant", other.id, { text: "another", state: "whole" });
    const edited = texts();
    tree.show(one, asked);
    out([one.title, edited, texts(), tree.siblings(one, other).map((each) => each.text)]);
    """
    title, edited, back, siblings = run(modules, TREE + script)
    assert title == "first"
    assert edited == ["second", "another"]
    assert back == ["first\nline", "reply"]
    assert siblings == ["first\nline", "second"]


def test_a_request_has_the_branch_above_a_reply_and_to_continue_the_reply_itself(modules: Path) -> None:
    script = """
    reply.reasoning = "thought";
    out([tree.sent(one, reply, false), tree.sent(one, reply, true)]);
    """
    fresh, continued = run(modules, TREE + script)
    above = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "first\nline"}]
    assert fresh == above
    assert continued == [*above, {"role": "assistant", "content": "reply", "reasoning_content": "thought"}]


def test_a_reply_that_a_closed_page_left_is_cut_or_failed(modules: Path) -> None:
    script = """
    reply.state = "running";
    const empty = tree.add(one, "assistant", asked.id, { state: "running" });
    tree.settle(one);
    out([reply.state, empty.state, tree.unanswered(reply), tree.unanswered(empty)]);
    """
    assert run(modules, TREE + script) == ["cut", "failed", False, True]


def test_a_file_of_conversations_comes_back_with_names_of_its_own(modules: Path) -> None:
    script = """
    import { read, written } from "./js/exchange.js";
    reply.tokens = [["re", null], ["ply", "lookup"]];
    reply.figures = { tokens: 2, estimated: true };
    one.sampling = { temperature: 0.5, seed: 7 };
    const [found] = read(written([one]));
    const [first, second] = tree.path(found);
    out([found.id !== one.id, found.title, found.sampling, first.text, second.tokens, second.figures]);
    """
    tokens = [["re", None], ["ply", "lookup"]]
    figures = {"tokens": 2, "estimated": True}
    sampling = {"temperature": 0.5, "seed": 7}
    assert run(modules, TREE + script) == [True, "first", sampling, "first\nline", tokens, figures]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("'no'", "is not JSON"),
        ("'{}'", "not exported from this page"),
        ("with_(file => { file.version = 2; })", "reads version 1"),
        ("with_(file => { file.conversations = 3; })", "no list"),
        ("with_(file => { first(file).role = 'system'; })", "is damaged"),
        ("with_(file => { first(file).parent = 'nobody'; })", "is damaged"),
        (
            "with_(file => { first(file).parent = Object.keys(file.conversations[0].messages)[1]; })",
            "is damaged",
        ),
        ("with_(file => { file.conversations[0].tip = 'nobody'; })", "is damaged"),
        ("with_(file => { file.conversations[0] = null; })", "is damaged"),
    ],
)
def test_a_damaged_file_is_refused_in_one_line(modules: Path, change: str, message: str) -> None:
    script = f"""
    import {{ read, written }} from "./js/exchange.js";
    const first = (file) => Object.values(file.conversations[0].messages)[0];
    const with_ = (edit) => {{
      const file = JSON.parse(written([one]));
      edit(file);
      return JSON.stringify(file);
    }};
    let said = null;
    try {{ read({change}); }} catch (error) {{ said = [error.name, error.message]; }}
    out(said);
    """
    found = run(modules, TREE + script)
    assert found[0] == "Error"
    assert message in found[1]


def test_events_are_the_same_wherever_the_stream_is_cut(modules: Path) -> None:
    script = """
    import { serverSentEvents } from "./js/server.js";
    const bytes = new TextEncoder().encode(
      ": hello\\r\\n\\r\\ndata: é1\\r\\n\\r\\ndata:2\\ndata: 3\\n\\nevent: x\\ndata: 4\\r\\rdata: 5",
    );
    const all = [];
    for (let cut = 0; cut <= bytes.length; cut++) {
      const body = new ReadableStream({
        start(stream) {
          for (const part of [bytes.slice(0, cut), bytes.slice(cut)]) if (part.length) stream.enqueue(part);
          stream.close();
        },
      });
      const found = [];
      for await (const data of serverSentEvents(body)) found.push(data);
      all.push(JSON.stringify(found));
    }
    out([...new Set(all)].map((each) => JSON.parse(each)));
    """
    assert run(modules, script) == [["é1", "2\n3", "4"]]


def test_values_of_sampling_are_checked_before_they_are_sent(modules: Path) -> None:
    script = """
    import { SAMPLING, parsed } from "./js/sampling.js";
    const field = (name) => SAMPLING.find((each) => each.name === name);
    const value = (name, text) => {
      try { return parsed(field(name), text); } catch (error) { return error.message; }
    };
    const half = ["temperature", " 0,5 "];
    const given = [half, ["temperature", ""], ["top_p", "0"], ["top_k", "1.5"], ["seed", "x"]];
    out(given.map(([name, text]) => value(name, text)));
    """
    half, empty, *refused = run(modules, script)
    assert (half, empty) == (0.5, None)
    assert refused == [
        "Top-p takes a number above 0 and at most 1.",
        "Top-k takes a whole number of at least 0.",
        "Seed takes a whole number of at least 0.",
    ]


def test_figures_are_short_and_an_estimate_is_called_one(modules: Path) -> None:
    script = """
    import { bytes, ofReply, ofUsage } from "./js/figures.js";
    const usage = { completion_tokens: 9, edgedec: { tokens_per_second: 118.4, tokens_per_pass: 1.857 } };
    const joules = { completion_tokens: 1, edgedec: { joules_per_token: 0.04213, joules_estimated: true } };
    out([bytes(4.12e8), bytes(1.5e9), ofReply(ofUsage(usage)), ofReply(ofUsage(joules)), ofReply({})]);
    """
    assert run(modules, script) == [
        "412 MB",
        "1.5 GB",
        ["9 tokens", "118 tokens/s", "1.9 tokens/pass"],
        ["1 token", "0.042 J/token (estimated)"],
        [],
    ]
