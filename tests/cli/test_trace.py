"""``edgedec generate --trace``, in colours, without, and as JSON."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace
from typing import Any

import pytest

from edgedec.backends.fake import MarkovForward
from edgedec.cli import trace
from edgedec.cli.services import Services
from edgedec.session.trace import Traced, traced
from tests.cli.support import Home, ran, run
from tests.fixtures.ready import ready_of

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
ARGS = ("generate", "-p", "Why?", "--max-tokens", "60", "--draft", "recycling")


@pytest.fixture
def drafting(home: Home) -> Services:
    """A model that runs trees, and repeats itself so that drafts are right."""
    model = home.parrot()
    vocab = model.manifest.spec.vocab_size
    forward = MarkovForward(vocab_size=vocab, capacity=400)
    return home.services(ready_of(forward, model.codec))


def test_json_says_who_drafted_each_token(drafting: Services) -> None:
    plain = json.loads(run(drafting, *ARGS, "--json").stdout)
    report = json.loads(run(drafting, *ARGS, "--json", "--trace").stdout)
    assert "trace" not in plain
    found = report["trace"]
    assert [one["token"] for one in found] == report["tokens"] == plain["tokens"]
    assert all(set(one) == {"token", "text", "source", "depth", "round"} for one in found)
    assert report["text"].startswith("".join(one["text"] for one in found))
    assert found[0]["source"] is None
    assert found[-1]["round"] == report["stats"]["rounds"]
    drafted = [one for one in found if one["source"]]
    assert len(drafted) == len(found) - report["stats"]["rounds"] + (found[-1]["source"] is not None)


def test_without_colours_the_reply_is_left_alone(drafting: Services) -> None:
    plain = run(drafting, *ARGS)
    result = ran(drafting, *ARGS, "--trace")
    assert result.stdout == plain.stdout
    *_, shown, last = result.stderr.splitlines()
    assert shown.startswith("trace: ")
    assert re.fullmatch(r"trace: \d+ rounds, [\d.]+ tokens each: \d+ of the target.*", last)
    assert "\x1b" not in result.stderr


def test_a_terminal_gets_colours_and_a_legend(
    monkeypatch: pytest.MonkeyPatch, drafting: Services, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(trace, "coloured", lambda: True)
    result = run(drafting, *ARGS, "--trace")
    assert (result.exit_code, "the target itself" in result.stderr) == (0, True)
    reply: Any = SimpleNamespace(sources=[None, "lookup"], writers=[None, None])
    trace.show("\x1b[31mword", reply, trace.Palette())
    shown = capsys.readouterr().out
    assert ESCAPE.sub("", shown) == "[31mword"  # what a model writes cannot colour anything
    assert ESCAPE.findall(shown)


def test_the_legend_of_a_chat_names_the_drafters_of_its_colours(
    monkeypatch: pytest.MonkeyPatch, drafting: Services
) -> None:
    def show(piece: str, reply: object, palette: trace.Palette) -> None:
        palette.paint(piece, "lookup")

    monkeypatch.setattr(trace, "coloured", lambda: True)
    monkeypatch.setattr(trace, "show", show)
    result = run(drafting, "chat", "--max-tokens", "8", stdin="/trace on\nWhy?\n")
    assert "the target itself  lookup" in ESCAPE.sub("", result.stderr)


def test_no_colour_is_heeded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert trace.coloured()
    monkeypatch.setenv("NO_COLOR", "1")
    assert not trace.coloured()


def test_each_drafter_has_a_colour_of_its_own() -> None:
    palette = trace.Palette()
    assert palette.paint("a", None) == "a"
    painted = {palette.paint("a", name) for name in ("lookup", "recycling", "model")}
    assert len(painted) == 3
    assert all(ESCAPE.sub("", text) == "a" != text for text in painted)
    assert ESCAPE.sub("", palette.legend()) == "the target itself  lookup  recycling  model"


def test_the_plain_form() -> None:
    sources = [None, "lookup", "lookup", None, "lookup", "recycling", None, None, "lookup"]
    tokens = traced(range(9), ["The", " a", " b", " c", " d", " e", "\n", "\x1b[2J", " f"], sources)
    assert trace.marked(tokens) == "The|[lookup: a b] c|[lookup: d][recycling: e]\\n|[2J|[lookup: f]"
    assert trace.marked([]) == ""
    assert trace.marked([Traced(1, "x", "lookup", 1, 1)]) == "[lookup:x]"
