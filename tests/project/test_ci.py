"""Scripts of `.ci`: README's two commands as they stand, tests that are run again, and the closing line."""

from __future__ import annotations

import gc
import shlex

import pytest

from tests.conftest import ROOT
from tests.kernels import test_sanitized, test_thread_sanitizer
from tests.project.test_packaging import script

README = (ROOT / "README.md").read_text(encoding="utf-8")
RUN = (ROOT / ".ci/run").read_text(encoding="utf-8")
start, again, closing = script("start"), script("again"), script("closing")


def test_the_two_commands_are_those_of_the_readme() -> None:
    chat, tests = start.commands(README).values()
    assert f"```sh\n{chat}\n```\n" in README
    assert f"```sh\n{tests}\n```\n" in README
    assert shlex.split(chat)[:4] == ["python3", "-m", "venv", ".venv"]
    assert shlex.split(tests)[:4] == ["python3", "-m", "venv", ".venv"]
    assert ".[test]" in shlex.split(tests)


def test_a_run_takes_both_commands_and_no_install_of_its_own_before_them() -> None:
    order = [RUN.index(part) for part in ("readme chat", "readme tests", "-m pip install")]
    assert order == sorted(order)
    assert RUN.count("pip install") == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("## Start", "## Begin"), "0 sh blocks"),
        (("```sh\npython3 -m venv .venv && .venv/bin/pip install .", "```\npip install ."), "1 sh blocks"),
        (("smollm2-135m\n```", "smollm2-135m && echo ok\n```"), "command for chat"),
        (("-m pytest -n auto", "-m unittest -n auto"), "command for tests"),
        (("-m pytest -n auto", "-m pytest \\\n  -n auto"), "command for tests"),
    ],
)
def test_other_commands_are_refused(change: tuple[str, str], words: str) -> None:
    name = shlex.split(start.commands(README)["chat"])[-1]
    change = tuple(part.replace("smollm2-135m", name) for part in change)  # type: ignore[assignment]
    assert change[0] in README
    with pytest.raises(SystemExit, match=words):
        start.commands(README.replace(*change))


def test_a_default_model_needs_no_name() -> None:
    chat = start.commands(README)["chat"]
    bare = chat[: chat.index(" chat")] + " chat"
    assert start.commands(README.replace(chat, bare))["chat"] == bare


def test_tests_of_files_that_are_run_again_are_not_named_twice() -> None:
    lacked = {
        "tests/a.py::test_one[a b]": "torch",
        "tests/b.py": "torch",
        "tests/b.py::test_two": "playwright",
        "tests/c.py::test_three": "SIMDe",
    }
    assert again.skipped_for(["torch", "playwright"], lacked) == ["tests/b.py", "tests/a.py::test_one[a b]"]
    assert again.skipped_for(["nothing"], lacked) == []


MAIN = """....
SKIPPED [7] tests/a.py:1: could not import 'torch': No module named 'torch'
SKIPPED [5] tests/b.py:2: needs playwright
SKIPPED [18] tests/c.py:3: root may read every file
========= 15000 passed, 30 skipped, 1 warning in 400.50s (0:06:40) =========
"""
AGAIN = (
    "\x1b[32m===== \x1b[32m\x1b[1m70 passed\x1b[0m, 2 skipped, 1 error\x1b[32m in 9.50s\x1b[0m =====\x1b[0m\n"
)


def test_runs_have_one_closing_line_together() -> None:
    assert closing.closing(["torch", "playwright"], [MAIN, AGAIN]) == (
        "==== 15070 passed, 20 skipped, 1 warnings, 1 errors in 410.00s ===="
    )
    nothing = "===== no tests ran in 0.10s =====\n"
    assert closing.closing([], [nothing]) == "==== no tests ran in 0.10s ===="
    with pytest.raises(SystemExit, match="no closing line"):
        closing.closing([], [MAIN, "Killed\n"])


def test_collections_of_garbage_leave_out_what_was_there_before_the_tests(
    request: pytest.FixtureRequest,
) -> None:
    assert gc.get_freeze_count() > 10_000 + len(request.session.items)


def test_what_runs_with_sanitizers_is_there() -> None:
    """They run at night, after a build of minutes."""
    parts = (*test_sanitized.PARTS, *test_thread_sanitizer.PARTS)
    assert [part for part in parts if not (ROOT / part).exists()] == []
