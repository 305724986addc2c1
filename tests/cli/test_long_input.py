"""Input of any size: only so much of it is read as a prompt may have."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from edgedec.cli import text_input
from tests.cli.support import Home, assert_one_line, run

MB = 1_000_000


def fed_without_end(home: Home, text: bytes, *arguments: str) -> tuple[int, str, int, int]:
    """Run edgedec with ``text`` again and again as its input.

    Returns its status, what it said, the bytes it took before it ended, and the most memory it had.
    """
    command = [sys.executable, "-m", "edgedec.cli.main", *arguments]
    reading, writing = os.pipe()
    taken = 0

    def feed() -> None:
        nonlocal taken
        block = text * (65_536 // len(text) + 1)
        try:
            while taken < 1000 * MB:
                taken += os.write(writing, block)
        except BrokenPipeError:
            pass
        finally:
            os.close(writing)

    with tempfile.TemporaryFile() as errors:
        environment = os.environ | {"EDGEDEC_HOME": str(home.path)}
        process = subprocess.Popen(
            command, stdin=reading, stdout=subprocess.DEVNULL, stderr=errors, env=environment
        )
        os.close(reading)
        feeder = threading.Thread(target=feed)
        feeder.start()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        feeder.join()
        errors.seek(0)
        said = errors.read().decode()
    return process.returncode, said, taken, usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def peak_alone(home: Home, bundle: Path) -> int:
    _, _, _, peak = fed_without_end(home, b"\xff\n", "chat", "-m", str(bundle), "--draft", "off")
    return peak


@pytest.mark.parametrize("text", [b"a", b"many words\n", "一".encode()])
def test_a_prompt_without_end_is_refused_at_once(home: Home, bundle: Path, text: bytes) -> None:
    args = ("-m", str(bundle), "--draft", "off", "--context", "500")
    status, said, taken, peak = fed_without_end(home, text, "generate", "-p", "-", *args)
    assert (status, said.count("\n")) == (8, 1), said
    assert "the prompt has more than 500 tokens, and the context holds 500" in said
    assert taken < 2 * MB
    assert peak < peak_alone(home, bundle) + 20 * MB


def test_a_line_without_end_in_a_chat_is_refused_at_once(home: Home, bundle: Path) -> None:
    args = ("-m", str(bundle), "--draft", "off", "--context", "500")
    status, said, taken, peak = fed_without_end(home, b"a", "chat", *args)
    assert (status, said.count("\n")) == (8, 1), said
    assert "more than 500 tokens" in said
    assert taken < 2 * MB
    assert peak < peak_alone(home, bundle) + 20 * MB


def test_prompts_without_end_are_refused(home: Home, bundle: Path) -> None:
    args = ("-m", str(bundle), "--draft", "off", "--context", "500")
    status, said, taken, _ = fed_without_end(home, b"a", "batch", "--input", "-", *args)
    assert (status, said.count("\n")) == (2, 1), said
    assert "standard input has more than 16.0 MB of prompts" in said
    assert taken < 20 * MB


def test_text_that_fits_by_its_bytes_takes_its_memory_from_the_budget(home: Home, bundle: Path) -> None:
    args = ("-m", str(bundle), "--draft", "off", "--memory", "200MB", "--json", "--max-tokens", "4")
    command = [sys.executable, "-m", "edgedec.cli.main", "generate", "-p", "-", *args]
    environment = os.environ | {"EDGEDEC_HOME": str(home.path)}
    done = subprocess.run(
        command, input="ab " * 100, capture_output=True, text=True, check=True, env=environment
    )
    assert json.loads(done.stdout)["stats"]["memory"]["most_leased"]["slack"] >= 160 * 300


def test_a_line_that_is_too_long_does_not_stop_the_others(home: Home, bundle: Path, tmp_path: Path) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_bytes(b"one\n" + b"a" * 5 * MB + b"\n\n" + "一".encode() * 2 * MB + b"\r\ntwo")
    result = run(
        home.real(), "batch", "-m", str(bundle), "--input", str(lines), "--json", "--max-tokens", "2",
        "--context", "500", "--draft", "off",
    )  # fmt: skip
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert [one.get("error", "")[:45] for one in found] == (
        ["", *["the prompt has more than 500 tokens, and the "] * 2, ""]
    )
    assert (found[0]["prompt"], found[3]["prompt"]) == ("one", "two")
    assert len(found[1]["prompt"]) < 50_000


def test_a_budget_that_is_named_as_enough_for_a_long_file_is_enough(
    home: Home, bundle: Path, tmp_path: Path
) -> None:
    """Each start named some MB more than the last, and none sufficed: lines had no part of the plan."""
    lines = tmp_path / "lines.txt"
    lines.write_bytes(b"one\ntwo\n" + b"a" * 15 * MB)
    command = [sys.executable, "-m", "edgedec", "batch", "-m", str(bundle), "--input", str(lines)]
    command += ["--max-tokens", "2", "--context", "256", "--draft", "off"]

    def start(memory: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"EDGEDEC_HOME": str(home.path)}
        whole = [*command, "--memory", memory]
        return subprocess.run(whole, capture_output=True, text=True, env=environment, check=False)

    poor = start("60MB")
    assert poor.returncode == 10
    named = re.search(r"use --memory (\d+MB) or more", poor.stderr)
    assert named, poor.stderr
    enough = start(named[1])
    assert enough.returncode == 8, enough.stderr  # of the third line, which is too long for a prompt
    assert enough.stdout.startswith("--- 1: one\n")
    assert "--- 2: two\n" in enough.stdout
    assert "1 of 3 lines has no reply: line 3" in enough.stderr
    assert "no memory" not in enough.stderr


def test_too_many_prompts(home: Home, bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("some words\n" * 1000)
    monkeypatch.setattr(text_input, "MOST_LINES_BYTES", 10_000)
    result = run(home.real(), "batch", "-m", str(bundle), "--input", str(lines), "--draft", "off")
    assert_one_line(result, 2, "lines.txt has more than 10.0 kB of prompts", "split it")


def test_a_turn_on_the_command_line_is_bounded_too(home: Home) -> None:
    result = run(home.services(home.parrot("Yes.")), "generate", "-p", "x" * 100_000)
    assert_one_line(result, 8, "more than 400 tokens")


def test_a_long_turn_leaves_the_chat_as_it_was(home: Home) -> None:
    stdin = "Why?\n" + "x" * 100_000 + "\n"
    result = run(home.services(home.parrot("Because.", "No.")), "chat", stdin=stdin)
    assert (result.exit_code, result.stdout) == (8, "Because.\n")
    assert "more than 400 tokens" in result.stderr
