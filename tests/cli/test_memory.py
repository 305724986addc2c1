"""``--memory`` and ``edgedec plan``, in processes whose memory the kernel counts."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from edgedec.core.units import parse_size
from tests.cli.support import Home, assert_one_line, run
from tests.fixtures.tiny_gguf import TinyShape, write_tiny

MB = 1_000_000


def edgedec(home: Home, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "edgedec.cli.main", *arguments]
    environment = os.environ | {"EDGEDEC_HOME": str(home.path)}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def parsed(home: Home, *arguments: str) -> dict[str, Any]:
    done = edgedec(home, *arguments)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_the_plan_names_every_byte(home: Home, bundle: Path) -> None:
    plan = parsed(home, "plan", "-m", str(bundle), "--json")
    assert plan["planned_bytes"] == sum(plan["parts"].values())
    assert plan["given_up"] == []
    assert "budget_bytes" not in plan
    stones = [stone["bytes"] for stone in plan["milestones"]]
    assert stones == sorted(stones)
    assert stones[-1] <= plan["planned_bytes"]
    told = edgedec(home, "plan", "-m", str(bundle), "--memory", "500MB").stdout
    assert re.search(r"^weights +\S+ MB  the model itself: every token needs all of it$", told, re.M)
    assert " of 500.0 MB\n" in told
    assert "all: the model does not fit" in told


def test_a_budget_that_was_named_as_enough_is_enough(home: Home, bundle: Path) -> None:
    given = ("generate", "-m", str(bundle), "--raw", "-p", "Hello", "--context", "256")
    poor = edgedec(home, *given, "--memory", "20MB")
    assert (poor.returncode, poor.stdout, poor.stderr.count("\n")) == (10, "", 1)
    assert "does not fit 20.0 MB: it needs " in poor.stderr
    enough = int(re.search(r"use --memory (\d+)MB", poor.stderr)[1]) + 2  # type: ignore[index]
    done = parsed(home, *given, "--memory", f"{enough}MB", "--json")["stats"]
    memory = done["memory"]
    assert done["peak_rss_bytes"] <= memory["budget_bytes"] == enough * MB
    assert memory["planned_bytes"] <= memory["budget_bytes"]


@pytest.mark.parametrize("size", ["much", "12XB", "-5MB", "5iB", ""])
def test_what_is_no_size_is_said(home: Home, size: str) -> None:
    assert_one_line(run(home.services(), "plan", "--memory", size), 2, "is not a size")


@pytest.mark.parametrize(
    ("size", "words"),
    [
        ("100", "100 bytes are not enough for any model; did you mean 100MB?"),
        ("4", "4 bytes are not enough for any model; did you mean 4GB?"),
        ("7kB", "7000 bytes are not enough for any model"),
        ("0", "0 bytes are not enough for any model"),
    ],
)
def test_a_number_that_lacks_its_unit_is_told_what_was_meant(home: Home, size: str, words: str) -> None:
    home.install()
    assert_one_line(run(home.services(), "chat", "--memory", size, "Hi"), 2, words)
    assert home.opened == []


@pytest.mark.parametrize(
    ("size", "count"),
    [("600MB", 600 * MB), ("1.5gb", 1_500_000_000), ("2MiB", 2 << 20), ("123", 123), ("7k", 7000)],
)
def test_sizes(size: str, count: int) -> None:
    assert parse_size(size) == count


def test_a_backend_that_is_not_ours_is_refused(home: Home) -> None:
    refused = run(home.services(home.parrot("Hello.")), "generate", "-p", "Hi", "--memory", "1GB")
    assert_one_line(refused, 5, "whose memory EdgeDec cannot bound")


def test_preparing_a_model_takes_nothing_of_the_budget(home: Home, tmp_path: Path) -> None:
    """A budget that a prepared model fits is enough for one that is exported first."""
    shape = TinyShape(context=512)
    sources = [write_tiny(tmp_path / f"{seed}.gguf", "llama", shape=shape, seed=seed) for seed in range(2)]
    arguments = ("--raw", "-p", "Hi", "--max-tokens", "3", "--threads", "1", "--draft", "off", "--json")
    generate = ("generate", *arguments, "-m")
    parsed(home, *generate, str(sources[0]))
    poor = edgedec(home, *generate, str(sources[0]), "--memory", "1MB")
    needed = int(re.search(r"use --memory (\d+)MB", poor.stderr)[1])  # type: ignore[index]
    for source in sources:
        parsed(home, *generate, str(source), "--memory", f"{needed + 4}MB")
