"""``generate --prompt-keep``: what is read and said, drafts over it, and values that cannot be."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from edgedec.cli import text_input
from edgedec.export import export_huggingface
from tests.cli.support import Home, assert_one_line, ran, run
from tests.fixtures.tiny_bert import write_bert

LINES = "".join(f"the dog sat on mat {at} and the sky is {at}\n" for at in range(300))
FACT = "a blue cat is why yes\n"
TEXT = LINES[: LINES.index("the dog sat on mat 200")] + FACT + LINES[LINES.index("the dog sat on mat 200") :]
QUESTION = "why is a cat blue"


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("bert")
    export_huggingface(write_bert(folder / "model"), folder / "encoder")
    return str(folder / "encoder")


def stats_of(home: Home, bundle: Path, *args: str, stdin: str) -> dict[str, Any]:
    options = ("-m", str(bundle), "--context", "512", "--threads", "1", "--json", *args)
    found: dict[str, Any] = json.loads(ran(home.real(), "generate", *options, stdin=stdin).stdout)
    return found


def test_a_part_is_read_and_the_report_says_so(home: Home, bundle: Path, encoder: str) -> None:
    args = ("-m", str(bundle), "--max-tokens", "4", "--threads", "1", "--json", QUESTION)
    result = ran(home.real(), "generate", "--prompt-keep", f"3%:{encoder}", *args, stdin=TEXT)
    stats = json.loads(result.stdout)["stats"]
    assert stats["lossy"] == "prompt-keep"
    kept, given = stats["prompt_kept_tokens"], stats["prompt_given_tokens"]
    assert kept < 0.06 * given
    assert kept <= stats["prompt_tokens"] < kept + 30
    said = f"note: {kept} of the prompt's {given} tokens are read, the nearest to its question; lossy"
    assert said in result.stderr.splitlines()


class WordEncoder:
    """Scores a text by the words that it shares with a question."""

    def rank(self, query: str, documents: Sequence[str]) -> SimpleNamespace:
        wanted = {*query.split()}
        return SimpleNamespace(vectors=np.array([[len(wanted & {*one.split()})] for one in documents]))


def test_the_model_reads_fact_question_and_system_message(home: Home) -> None:
    parrot, asked = home.parrot("Yes.", capacity=4_000), []

    def opened(*given: object, **named: object) -> WordEncoder:
        asked.append((given[0], named))
        return WordEncoder()

    args = ("--prompt-keep", "5%", "--system", "Be brief.", "--threads", "1", QUESTION)
    assert ran(home.services(parrot, encoder=opened), "generate", *args, stdin=TEXT).stdout == "Yes.\n"
    assert asked == [("all-minilm-l6-v2", {"threads": 1, "memory": None})]
    tokenizer = parrot.model.tokenizer
    read = tokenizer.decode([token for one in parrot.forward.passes for token in one])  # type: ignore[attr-defined]
    assert "Be brief." in read
    assert FACT in read
    assert QUESTION in read
    assert "[...]" in read
    assert len(read) < 0.08 * len(TEXT)


@pytest.mark.parametrize("stdin", ["", "the cat sat\n" * 20])
def test_a_short_prompt_stays_whole_and_nothing_is_said(home: Home, bundle: Path, stdin: str) -> None:
    args = ("--max-tokens", "4", QUESTION)
    plain = stats_of(home, bundle, *args, stdin=stdin)
    same = stats_of(home, bundle, *args, "--prompt-keep", "25%:no-such-encoder", stdin=stdin)
    assert same["tokens"] == plain["tokens"]
    assert same["stats"]["lossy"] is None
    assert {*same["stats"]} == {*plain["stats"]}
    assert same["stats"]["prompt_tokens"] == plain["stats"]["prompt_tokens"]


@pytest.mark.parametrize("temperature", ["0", "1"])
def test_drafts_change_no_token(home: Home, bundle: Path, encoder: str, temperature: str) -> None:
    args = ("--prompt-keep", f"2%:{encoder}", "--temperature", temperature, "--seed", "5")
    args = (*args, "--max-tokens", "200", QUESTION)
    drafts = ("off", "auto", "lookup", "recycling", "lookup,recycling")
    found = [stats_of(home, bundle, *args, "--draft", draft, stdin=TEXT)["tokens"] for draft in drafts]
    assert len(found[0]) == 200
    assert found == [found[0]] * len(drafts)


def test_a_form_is_kept_to(home: Home, bundle: Path, encoder: str) -> None:
    args = ("--prompt-keep", f"2%:{encoder}", "--form", "regex:yes|no", QUESTION)
    assert stats_of(home, bundle, *args, stdin=TEXT)["text"] in ("yes", "no")


def test_saved_prefixes_hold_what_was_read(home: Home, bundle: Path, encoder: str) -> None:
    args = ["-m", str(bundle), "--context", "512", "--threads", "1", "--json", "--max-tokens", "4"]
    args = ["generate", *args, "--temperature", "0", "--prompt-keep", f"4%:{encoder}", QUESTION]
    env = {"EDGEDEC_PREFIXES": "100MB"}
    first, second = (json.loads(ran(home.real(), *args, stdin=TEXT, env=env).stdout) for _ in "12")
    assert first["tokens"] == second["tokens"]
    assert first["stats"]["prompt_kept_tokens"] == second["stats"]["prompt_kept_tokens"]


@pytest.mark.parametrize(("given", "words"), [
    ("0%", ["a prompt cannot keep 0% of its text", "1% to 100%"]),
    ("150%", ["a prompt cannot keep 150% of its text"]),
    ("abc", ["'abc' is no share of a prompt, such as 25%"]),
    ("25", ["did you mean 25%?"]),
    ("-5%", ["'-5%' is no share of a prompt"]),
    ("25%:", ["'25%:' is no share of a prompt"]),
    ("٢%", ["is no share of a prompt"]),
])  # fmt: skip
def test_a_share_that_cannot_be_is_one_line(home: Home, given: str, words: list[str]) -> None:
    result = run(home.services(home.parrot("Yes.")), "generate", f"--prompt-keep={given}", "-p", "x")
    assert_one_line(result, 2, *words)
    assert home.opened == []


@pytest.mark.parametrize("other", [("--raw",), ("--suffix", "end")])
def test_a_text_without_a_question_is_refused(home: Home, other: tuple[str, ...]) -> None:
    result = run(home.services(home.parrot("Yes.")), "generate", "--prompt-keep", "25%", "-p", "x", *other)
    assert_one_line(result, 2, "--prompt-keep needs a question", other[0])
    assert home.opened == []


def test_a_base_model_is_refused(home: Home, encoder: str) -> None:
    services = home.services(home.parrot(chat=False))
    result = run(services, "generate", "--prompt-keep", f"25%:{encoder}", QUESTION, stdin=TEXT)
    assert result.exit_code == 2
    assert "parrot has no chat template, and --prompt-keep needs a question" in result.stderr


def test_a_model_that_replies_is_no_encoder(home: Home, bundle: Path) -> None:
    result = run(home.real(), "generate", "-m", str(bundle), "--prompt-keep", f"25%:{bundle}", "-p", TEXT)
    assert result.exit_code == 5
    assert "replies to texts and makes no vectors of them" in result.stderr


def test_a_prompt_without_end_is_not_read_to_its_end(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_input, "MOST_LONG_BYTES", 10_000)
    args = ("generate", "--prompt-keep", "25%", "-p", "-")
    result = run(home.services(home.parrot("Yes.")), *args, stdin=TEXT)
    assert_one_line(result, 2, "the prompt has more than 10.0 kB")
