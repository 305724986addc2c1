"""``edgedec batch --input`` and ``edgedec bench batch``, on a model of random weights."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from edgedec.bench.harness.texts import QUESTIONS
from tests.cli.support import Home, assert_one_line, ran, run
from tests.patience import PATIENCE_S

PROMPTS = ["Once upon a time", "one two one two one two", "", "The cat sat on the mat. " * 5, "x", "Hello"]
ASKED = [prompt for prompt in PROMPTS if prompt]


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "lines.txt"
    path.write_text("\n".join(PROMPTS), encoding="utf-8")
    return path


def answer(home: Home, bundle: Path, *args: str, command: str = "batch", stdin: str | None = None) -> Result:
    given = ("-m", str(bundle), "--max-tokens", "12", "--threads", "1", *args)
    return run(home.real(), command, *given, stdin=stdin)


def generate(home: Home, bundle: Path, *args: str) -> Result:
    return answer(home, bundle, *args, command="generate")


def objects(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.mark.parametrize("options", [(), ("--draft", "off"), ("--temperature", "0.9", "--seed", "4")])
def test_one_object_a_line_in_order_and_as_if_alone(
    home: Home, bundle: Path, lines: Path, options: tuple[str, ...]
) -> None:
    given = ("--context", "300", "--json", *options)
    found = [
        objects(answer(home, bundle, "--input", str(lines), "--batch", count, *given)) for count in ("1", "3")
    ]
    assert [one["line"] for one in found[1]] == [1, 2, 4, 5, 6]  # line 3 is empty
    assert [one["prompt"] for one in found[1]] == ASKED
    for prompt, *several in zip(ASKED, *found, strict=True):
        (alone,) = objects(generate(home, bundle, "-p", prompt, "--draft", "off", *given[:3], *options))
        for one in several:
            assert one["tokens"] == alone["tokens"]
            assert (one["text"], one["finish_reason"]) == (alone["text"], alone["finish_reason"])
            assert one["stats"]["completion_tokens"] == len(one["tokens"])


def test_each_object_has_the_energy_of_all_replies_up_to_then(home: Home, bundle: Path, lines: Path) -> None:
    found = objects(answer(home, bundle, "--input", str(lines), "--batch", "2", "--draft", "off", "--json"))
    together = [one["stats"]["batch"] for one in found]
    assert together[-1]["completion_tokens"] == sum(len(one["tokens"]) for one in found)
    spent = [(one["completion_tokens"], one["energy"]["joules"]) for one in together]
    assert spent == sorted(spent)
    assert spent[0][1] > 0.0
    assert all((a[0] < b[0]) == (a[1] < b[1]) for a, b in pairwise(spent)), spent
    assert {"source", "estimated", "joules_per_token", "reason"} <= together[-1]["energy"].keys()


def test_text_has_each_prompt_above_its_reply(home: Home, bundle: Path, lines: Path) -> None:
    told = answer(home, bundle, "--input", "-", "--batch", "4", "--draft", "off", stdin=lines.read_text())
    assert told.exit_code == 0, told.output
    heads = [line for line in told.stdout.splitlines() if line.startswith("--- ")]
    assert heads[0] == "--- 1: Once upon a time"
    assert [head[:7] for head in heads] == [f"--- {number}: " for number in (1, 2, 4, 5, 6)]
    assert heads[2].endswith("...")
    as_objects = objects(answer(home, bundle, "--input", str(lines), "--draft", "off", "--json"))
    assert all(one["text"].strip() in told.stdout for one in as_objects)


def test_a_line_that_does_not_fit_is_said_and_the_others_are_answered(
    home: Home, bundle: Path, tmp_path: Path
) -> None:
    path = tmp_path / "lines.txt"
    path.write_text("Hello\n" + "word " * 400 + "\nx\n", encoding="utf-8")
    given = ("--input", str(path), "--batch", "2", "--context", "150", "--draft", "off")
    result = answer(home, bundle, *given, "--json")
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.exit_code == 8
    assert ["text" in one for one in found] == [True, False, True]
    assert "do not fit" in found[1]["error"] or "holds 150" in found[1]["error"]
    assert result.stderr.count("\n") == 1


DAMAGED = [b"Hello", b"", b"\xff\xfe bad", b"nul \0 and \x1b[31m", b"x" * 40_000, b"cut \xe2\x82", b"x"]


@pytest.mark.parametrize("given", ["file", "-"])
def test_damaged_lines_have_errors_and_the_others_replies(
    home: Home, bundle: Path, tmp_path: Path, given: str
) -> None:
    content = b"\n".join(DAMAGED)
    (tmp_path / "file").write_bytes(content)
    source = str(tmp_path / given) if given != "-" else "-"
    options = ("--max-tokens", "3", "--threads", "1", "--draft", "off", "--batch", "2", "--context", "150")
    args = ("batch", "-m", str(bundle), *options, "--input", source)
    result = run(home.real(), *args, "--json", stdin=content)
    found = {one["line"]: one for one in map(json.loads, result.stdout.splitlines())}
    assert list(found) == [1, 3, 4, 5, 6, 7]
    assert [number for number, one in found.items() if "error" in one] == [3, 5, 6]
    assert all(("text" in one) != ("error" in one) for one in found.values())
    assert "line 3 of" in found[3]["error"]
    assert found[3]["prompt"] == "\ufffd\ufffd bad"
    assert result.exit_code == (2 if given == "-" else 4)
    assert result.stderr == "error: 3 of 6 lines have no reply: lines 3, 5, 6\n"
    shown = run(home.real(), *args, stdin=content)
    assert shown.exit_code == result.exit_code
    assert shown.stdout.count("--- ") == 6
    assert "\nline 3: line 3 of" not in shown.stderr
    stated = [line[:7] for line in shown.stderr.splitlines()]
    assert stated == ["line 3 ", "line 5:", "line 6 ", "note: -", "error: "]


def test_a_file_of_damaged_lines_alone(home: Home, bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"\xff\n")
    result = answer(home, bundle, "--input", str(tmp_path / "file"), "--json", "--draft", "off")
    assert result.exit_code == 4
    assert [json.loads(line)["line"] for line in result.stdout.splitlines()] == [1]
    assert result.stderr == "error: 1 of 1 lines has no reply: line 1\n"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("x",), ["a batch is of --input or of --samples", "`edgedec generate`"]),
        (("--input", "{}", "x"), ["--input goes without a prompt"]),
        (("--input", "{}", "--samples", "2"), ["--samples is for one prompt"]),
        (("--input", "{}", "--batch", "33"), ["a batch of 33 conversations", "1 to 32"]),
        (("--input", "{}", "--draft", "exit"), ["cannot draft for a batch"]),
        (("--input", os.devnull), ["no prompt"]),
    ],
)
def test_what_is_not_possible(
    home: Home, bundle: Path, lines: Path, args: tuple[str, ...], words: list[str]
) -> None:
    given = [arg.format(lines if arg == "{}" else bundle) for arg in args]
    assert_one_line(answer(home, bundle, *given), 2, *words)


def test_a_file_that_is_not_there(home: Home, bundle: Path) -> None:
    assert_one_line(answer(home, bundle, "--input", "nowhere.txt"), 3, "nowhere.txt")


def test_one_budget_for_all(home: Home, bundle: Path, lines: Path) -> None:
    given = ("--input", str(lines), "--batch", "3", "--json", "--draft", "off", "--context", "256")
    poor = answer(home, bundle, *given, "--memory", "20MB")
    assert_one_line(poor, 10, "does not fit 20.0 MB")
    told = re.search(r"use --memory (\d+)MB", poor.stderr)
    assert told
    enough = f"{int(told[1]) + 60}MB"
    free, fitted = (objects(answer(home, bundle, *given, *more)) for more in ((), ("--memory", enough)))
    assert [one["tokens"] for one in fitted] == [one["tokens"] for one in free]


def test_the_plan_of_several(home: Home, bundle: Path) -> None:
    given = ("-m", str(bundle), "--context", "256", "--threads", "1", "--sampled")
    one, four = (
        json.loads(run(home.real(), "plan", *given, "--batch", count, "--json").stdout)["parts"]
        for count in ("1", "4")
    )
    assert four["rows"] == 4 * one["rows"]
    assert four["weights"] == one["weights"]
    assert four["kv_cache"] > 3 * one["kv_cache"]
    told = run(home.real(), "plan", *given, "--batch", "4").stdout
    assert "keys and values of 4 times 256 tokens in fp16" in told
    assert "up to 176 tokens at a time" in told
    wrong = run(home.real(), "plan", *given, "--batch", "4", "--history")
    assert_one_line(wrong, 2, "--history")


def test_ctrl_c_ends_all_and_shows_what_was_said(home: Home, bundle: Path, tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_text("Hello\n" * 5000, encoding="utf-8")
    command = [sys.executable, "-m", "edgedec.cli.main", "batch", "-m", str(bundle), "--input", str(path)]
    options = ["--batch", "4", "--max-tokens", "40", "--json", "--draft", "off"]
    process = subprocess.Popen(
        [*command, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"EDGEDEC_HOME": str(home.path)},
    )
    assert process.stdout
    first = process.stdout.readline()
    time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    rest, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, errors
    found = [json.loads(line) for line in [first, *rest.splitlines()]]
    assert 1 <= len(found) < 5000
    assert "Traceback" not in errors
    whole = found[0]["tokens"]
    assert all(one["tokens"] == whole[: len(one["tokens"])] for one in found)


def asked(home: Home, count: int) -> str:
    """A file of so many questions."""
    file = home.path / "questions.txt"
    file.write_text("".join(f"{text}\n" for text in QUESTIONS[:count]), encoding="utf-8")
    return str(file)


def test_the_bench_compares_every_reply(home: Home, bundle: Path) -> None:
    given = ("-m", str(bundle), "--input", asked(home, 5), "--max-tokens", "8", "--threads", "1")
    both = f"lookup,{bundle}"
    options = ("--batch", "1", "--batch", "3", "--draft", both, "--draft", "off")
    facts = json.loads(run(home.real(), "bench", "batch", *given, *options, "--json").stdout)
    found = facts["results"]
    assert [(one["batch"], one["draft"]) for one in found] == [
        (1, both), (3, both), (1, "off"), (3, "off"),
    ]  # fmt: skip
    assert all(one["differ"] == 0 and one["replies"] == 5 and one["tokens"] > 5 for one in found)
    assert [one["ratio"] for one in found if one["batch"] == 1] == [1.0, 1.0]
    assert all(one["peak_rss_bytes"] > 10_000_000 and one["tokens_per_s"] > 0 for one in found)
    for one in found:
        energy = one["energy"]
        assert energy["joules_per_token"] == pytest.approx(energy["joules"] / one["tokens"], abs=2e-6)
    told = ran(home.real(), "bench", "batch", *given, *options[:4], "--draft", "off")
    assert re.search(r"^ +3 +off +[\d.]+ +[\d.]+ +[\d.]+ +~?[\d.]+ +[\d.]+ MB +0$", told.stdout, re.M)
    assert "energy, prompts included: " in told.stdout
    few = run(home.real(), "bench", "batch", *given, "--batch", "8")
    assert_one_line(few, 2, "5 questions are not enough for a batch of 8")
    models = run(home.real(), "bench", "batch", *given, "--batch", "2", "--draft", "exit")
    assert_one_line(models, 2, "cannot draft for a batch")


def test_the_bench_within_a_budget(home: Home, bundle: Path) -> None:
    """The smallest that fits four conversations, which is too much for none; and too little for any."""
    given = (
        "-m",
        str(bundle),
        "--input",
        asked(home, 4),
        "--max-tokens",
        "6",
        "--draft",
        "auto",
    )
    bench = ("bench", "batch", *given, "--batch", "1", "--batch", "4")
    free = json.loads(run(home.real(), *bench, "--memory", "1GB", "--json").stdout)["results"]
    assert [(one["differ"], one["over_budget"], one["memory"]["given_up"]) for one in free] == [
        (0, False, []), (0, False, []),
    ]  # fmt: skip
    budget = free[0]["memory"]["planned_bytes"]
    told = ran(home.real(), *bench, "--memory", str(budget))
    number = r"[\d.]+ MB"
    figures = r"[\d.]+ +[\d.]+ +[\d.]+ +~?[\d.]+"
    assert re.search(rf"^ +4 +auto +{figures} +{number} +{number} +{number} +0$", told.stdout, re.M)
    assert re.search(r"^batch of 4, drafts auto: ", told.stdout, re.M)
    small = json.loads(run(home.real(), *bench, "--memory", "10MB", "--json").stdout)["results"]
    assert all("10.0 MB" in one["refused"] for one in small)


def test_the_bench_says_when_a_budget_was_not_kept(
    home: Home, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from edgedec.bench.studies.batch import BatchRow

    monkeypatch.setattr(BatchRow, "over", True)
    given = ("-m", str(bundle), "--input", asked(home, 1), "--max-tokens", "4", "--draft", "off")
    result = run(home.real(), "bench", "batch", *given, "--batch", "1", "--memory", "1GB")
    assert result.exit_code == 10
    assert "1 of 1 took more memory" in result.stderr


def test_the_bench_sees_a_reply_that_differs(
    home: Home, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from edgedec.bench.studies import batch

    alone = batch._Plain.replies
    monkeypatch.setattr(batch._Plain, "replies", lambda *args: [[0], *alone(*args)[1:]])
    given = ("-m", str(bundle), "--input", asked(home, 2), "--max-tokens", "4", "--draft", "off")
    result = run(home.real(), "bench", "batch", *given, "--batch", "2", "--json")
    assert result.exit_code == 1
    assert [one["differ"] for one in json.loads(result.stdout)["results"]] == [1]


def test_one_line_names_the_replies_that_a_limit_cut(home: Home, bundle: Path, lines: Path) -> None:
    args = ("--input", str(lines), "--context", "300", "--draft", "off")
    shown = answer(home, bundle, *args)
    assert shown.exit_code == 0
    cut = "note: --max-tokens cut the replies to lines 1, 2, 4, 5, 6;"
    assert shown.stderr == f"{cut} a higher one gives more, and none the whole context\n"
    report = objects(answer(home, bundle, *args, "--json", "--seed", "3"))
    assert {one["stats"]["sampling"]["seed"] for one in report} == {3}


def test_without_a_limit_each_reply_may_fill_its_context(home: Home, bundle: Path, lines: Path) -> None:
    args = ("--input", str(lines), "--context", "150", "--threads", "1", "--draft", "off", "--json")
    alone, found = (
        objects(run(home.real(), "batch", "-m", str(bundle), *args, "--batch", count)) for count in ("1", "3")
    )
    assert [one["tokens"] for one in found] == [one["tokens"] for one in alone]
    assert {one["finish_reason"] for one in found} <= {"stop", "context"}
    full = [one["stats"] for one in found if one["finish_reason"] == "context"]
    assert full
    assert {stats["prompt_tokens"] + stats["completion_tokens"] for stats in full} == {150}
