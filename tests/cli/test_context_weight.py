"""``generate --context-weight``: what is read and said, drafts over it, and prompts that cannot be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import Home, assert_one_line, ran, run

TEXT = "the dog sat on a mat and the sky is blue\n" * 12
QUESTION = "why is a cat blue"
LINE = "note: replies follow what the text changes, weight 1; lossy"


def report_of(home: Home, bundle: Path, *args: str, stdin: str | None = TEXT) -> dict[str, Any]:
    options = ("-m", str(bundle), "--context", "512", "--threads", "1", "--max-tokens", "60", "--json", *args)
    found: dict[str, Any] = json.loads(ran(home.real(), "generate", *options, stdin=stdin).stdout)
    return found


def test_the_text_has_a_weight_and_the_report_says_so(home: Home, bundle: Path) -> None:
    args = ("-m", str(bundle), "--max-tokens", "4", "--threads", "1", "--json", QUESTION)
    result = ran(home.real(), "generate", "--context-weight", "1", *args, stdin=TEXT)
    stats = json.loads(result.stdout)["stats"]
    assert stats["lossy"] == "context-weight"
    assert stats["context_weight"] == 1.0
    assert 0 < stats["prompt_without_tokens"] < stats["prompt_tokens"] / 2
    assert LINE in result.stderr.splitlines()
    plain = json.loads(ran(home.real(), "generate", *args, stdin=TEXT).stdout)["stats"]
    assert not {"context_weight", "prompt_without_tokens"} & {*plain}
    assert plain["prompt_tokens"] == stats["prompt_tokens"]
    assert stats["kv_cache_bytes"] >= 1.9 * plain["kv_cache_bytes"]


def test_it_changes_the_reply_the_more_the_greater_it_is(home: Home, bundle: Path) -> None:
    args = ("--temperature", "0", "--draft", "off", QUESTION)
    plain = report_of(home, bundle, *args)["tokens"]
    same = report_of(home, bundle, "--context-weight", "1e-6", *args)["tokens"]
    assert same == plain
    assert report_of(home, bundle, "--context-weight", "2", *args)["tokens"] != plain


@pytest.mark.parametrize("temperature", ["0", "1"])
def test_drafts_change_no_token(home: Home, bundle: Path, temperature: str) -> None:
    args = ("--context-weight", "1", "--temperature", temperature, "--seed", "5", QUESTION)
    drafts = ("off", "auto", "lookup", "recycling", "lookup,recycling")
    found = [report_of(home, bundle, *args, "--draft", draft) for draft in drafts]
    assert [one["tokens"] for one in found] == [found[0]["tokens"]] * len(drafts)
    assert temperature != "0" or any(one["stats"]["acceptance_rate"] for one in found[1:])


def test_the_question_may_be_the_last_paragraph(home: Home, bundle: Path) -> None:
    args = ("--context-weight", "1", "--temperature", "0")
    behind = report_of(home, bundle, *args, QUESTION)
    within = report_of(home, bundle, *args, stdin=f"{TEXT}\n\n{QUESTION}")
    given = report_of(home, bundle, *args, "-p", f"{TEXT.rstrip()}\n\n{QUESTION}", stdin=None)
    assert behind["tokens"] == within["tokens"] == given["tokens"]


def test_a_base_model_weighs_a_text_too(home: Home, bundle: Path) -> None:
    args = ("--raw", "--temperature", "0", QUESTION)
    weighed = report_of(home, bundle, "--context-weight", "2", *args)
    assert weighed["stats"]["lossy"] == "context-weight"
    assert weighed["tokens"] != report_of(home, bundle, *args)["tokens"]


def test_a_form_is_kept_to(home: Home, bundle: Path) -> None:
    for form in ("regex:yes|no", "unbiased:regex:[a-z ]{1,9}"):
        args = ("--context-weight", "1", "--temperature", "1", "--form", form, QUESTION)
        text = report_of(home, bundle, *args)["text"]
        assert text in ("yes", "no") if "yes" in form else text


def test_it_fits_a_memory_budget_that_the_plan_names(home: Home, bundle: Path) -> None:
    size = ("--context", "512", "--threads", "1", "--context-weight", "1")
    plan = json.loads(ran(home.real(), "plan", str(bundle), *size, "--json").stdout)
    plain = json.loads(ran(home.real(), "plan", str(bundle), *size[:-2], "--json").stdout)
    assert plan["parts"]["kv_cache"] == 2 * plain["parts"]["kv_cache"]
    assert plan["parts"]["rows"] > plain["parts"].get("rows", 0)
    budget = str(plan["planned_bytes"] + 20_000_000)
    memory = report_of(home, bundle, "--context-weight", "1", "--memory", budget, QUESTION)["stats"]["memory"]
    assert all(memory["most_leased"][name] <= held for name, held in memory["parts"].items())
    assert memory["most_leased"]["rows"] > 0


@pytest.mark.parametrize(
    ("args", "stdin", "words"),
    [
        ((QUESTION,), "", ["--context-weight needs a text that the question is about", "standard input"]),
        (("-p", QUESTION), "", ["--context-weight needs a text"]),
        (("-p", f"\n\n{QUESTION}"), "", ["--context-weight needs a text"]),
        ((QUESTION, "--suffix", "end"), TEXT, ["--context-weight needs a question", "--suffix"]),
        ((QUESTION, "--switch", "small"), TEXT, ["--context-weight is for one model"]),
        ((QUESTION, "--when-full", "slide"), TEXT, ["a context weight does not go with", "--context-weight"]),
    ],
)
def test_what_it_does_not_go_with_is_one_line(
    home: Home, args: tuple[str, ...], stdin: str, words: list[str]
) -> None:
    result = run(home.services(home.parrot("Yes.")), "generate", "--context-weight", "1", *args, stdin=stdin)
    assert_one_line(result, 2, *words)
    assert home.opened == []


@pytest.mark.parametrize(
    ("weight", "words"), [("0", "x>0"), ("-1", "x>0"), ("nan", "weight nan"), ("11", "at most 10")]
)
def test_a_weight_that_cannot_be_is_one_line(home: Home, weight: str, words: str) -> None:
    args = ("generate", f"--context-weight={weight}", QUESTION)
    assert_one_line(run(home.services(home.parrot("Yes.")), *args, stdin=TEXT), 2, words)


def test_drafters_that_read_layers_are_named(home: Home, bundle: Path) -> None:
    args = ("generate", "-m", str(bundle), "--context-weight", "1", "--draft", "exit", QUESTION)
    result = run(home.real(), *args, stdin=TEXT)
    assert result.exit_code == 2
    assert "exit drafts from layers of the model, and not with a context weight" in result.stderr
    assert "leave out --context-weight" in result.stderr


def test_a_backend_without_such_passes_says_so(home: Home) -> None:
    services = home.services(home.parrot("Yes."))
    result = run(services, "generate", "--context-weight", "1", QUESTION, stdin=TEXT)
    assert result.exit_code == 5
    assert "no passes with a text and without it" in result.stderr


def test_a_long_prompt_that_is_made_short_has_the_weight_too(home: Home, bundle: Path) -> None:
    args = ("--context-weight", "1", "--prompt-keep", "25%:no-such-encoder", "--temperature", "0", QUESTION)
    found = report_of(home, bundle, *args)
    assert found["stats"]["lossy"] == "context-weight"
    assert found["tokens"] == report_of(home, bundle, *args[:2], *args[4:])["tokens"]
