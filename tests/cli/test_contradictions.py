"""Options that contradict each other are refused before anything is opened; mere overlaps are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import Home, assert_one_line, run

NO_DRAFTS = ("--draft", "off")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("generate", "-p", "x", *NO_DRAFTS, "--trace"), ["--trace", "--draft off"]),
        (("generate", "-p", "x", "--raw", "--system", "y"), ["--system", "--raw"]),
        (("batch", "--input", "{}", "--raw", "--system", "y"), ["--system", "--raw"]),
        (("chat", "--raw", "--system", "y"), ["--system", "--raw"]),
        (("chat", "--raw", "--template", "{}"), ["--template", "--raw"]),
        (("generate", "-p", "x", "--logprobs", "2"), ["--logprobs", "--json"]),
    ],
)
def test_one_option_that_leaves_another_no_meaning(
    home: Home, tmp_path: Path, args: tuple[str, ...], words: list[str]
) -> None:
    (tmp_path / "file").write_text("some text")
    given = [arg.format(tmp_path / "file") for arg in args]
    assert_one_line(run(home.services(home.parrot("Yes.")), *given, stdin="Hi\n"), 2, *words)
    assert home.opened == []


@pytest.mark.parametrize(
    "options",
    [
        ("--temperature", "0", "--seed", "3"),
        ("--temperature", "0", "--sampling", "top-p=0.9"),
    ],
)
def test_values_that_change_nothing_are_no_contradiction(home: Home, options: tuple[str, ...]) -> None:
    result = run(home.services(home.parrot("Yes.")), "generate", "-p", "Why?", *options)
    assert (result.exit_code, result.stdout) == (0, "Yes.\n")


def test_a_chat_keeps_typed_prompts_with_or_without_drafts(home: Home) -> None:
    given = ("chat", *NO_DRAFTS, "--history")
    assert run(home.services(home.parrot("Yes.")), *given, stdin="Hi\n").stdout == "Yes.\n"


def test_a_base_model_has_no_use_for_a_system_message(home: Home) -> None:
    services = home.services(home.parrot(chat=False))
    result = run(services, "generate", "-p", "Why?", "--system", "Be brief.")
    assert_one_line(result, 2, "parrot has no chat template, so no system message either")


def test_a_model_beside_itself_is_refused_before_it_is_opened(home: Home) -> None:
    home.install()
    result = run(home.services(), "generate", "-m", "smollm2-135m", "--switch", "smollm2-135m", "-p", "x")
    assert_one_line(result, 2, "smollm2-135m cannot take turns with itself", "smaller model")
    assert home.opened == []
