"""One room knows the operating system: no other one asks which it is, or calls what only one of them has."""

from __future__ import annotations

import ast
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.project.sources import modules, relative

ROOM = "edgedec/system/"
ONE_SYSTEMS = {"fcntl", "grp", "msvcrt", "psutil", "pty", "pwd", "resource", "termios", "tty", "winreg"}
"""Modules that are not everywhere, or that only this room needs."""
EVERYWHERE = {"SIGINT", "SIGTERM", "SIGABRT", "SIGFPE", "SIGILL", "SIGSEGV", "SIG_DFL", "SIG_IGN"}
SIGNALS = {one for one in dir(signal) if one.startswith("SIG")} - EVERYWHERE
SIGNALS |= {one for one in dir(signal) if one.startswith("ITIMER_")} | {"setitimer", "pthread_kill", "alarm"}
CALLS = re.compile(
    r"sys\.platform|os\.(name|fork\w*|sched_\w+|sysconf|preadv?|posix_\w+|getloadavg|gete?uid|uname|kill\w*)"
)
FACTS = re.compile(r"/proc\b|/sys\b|/dev/(?!null)")


def named(source: str) -> Iterator[str]:
    """Names in a module that some systems lack, or by which they are told apart."""
    tree = ast.parse(source)
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names if one.name in ONE_SYSTEMS)
        elif isinstance(node, ast.ImportFrom) and node.module in ONE_SYSTEMS:
            yield str(node.module)
        elif isinstance(node, ast.ImportFrom) and node.module == "sys":
            yield from (f"sys.{one.name}" for one in node.names if one.name == "platform")
        elif isinstance(node, ast.Attribute):
            text = ast.unparse(node)
            if CALLS.fullmatch(text) or (text.startswith("signal.") and node.attr in SIGNALS):
                yield text
        elif id(node) not in prose and isinstance(text := getattr(node, "value", None), str):
            yield from [text[:60]] if text in SIGNALS or FACTS.search(text) else []


def places() -> list[Path]:
    return [file for file in modules() if not relative(file).startswith(ROOM)]


def test_only_the_room_of_the_system_knows_it() -> None:
    files = places()
    assert len(files) > 500
    found = [
        f"{relative(file)}: {name}" for file in files for name in named(file.read_text(encoding="utf-8"))
    ]
    assert found == [], "edgedec/system/ is where this belongs"


@pytest.mark.parametrize(
    "code",
    [
        "import sys\nif sys.platform == 'win32':\n    pass",
        "from sys import platform",
        "def f():\n    import fcntl",
        "import os\nos.sched_getaffinity(0)",
        "import signal\nsignal.signal(signal.SIGHUP, f)",
        "import signal\nsignal.setitimer(signal.ITIMER_REAL, 1)",
        "Path('/proc/self/status')",
        "open(f'/sys/class/{name}')",
        "import os\nos.name == 'posix'",
        "getattr(signal, 'SIGHUP')",
    ],
)
def test_what_belongs_there_is_seen(code: str) -> None:
    assert list(named(code))


def test_words_about_a_system_are_no_calls() -> None:
    code = '"""Reads /proc/cpuinfo."""\nimport signal\nsignal.signal(signal.SIGTERM, f)\nname = "/dev/null"'
    assert list(named(code)) == []


def test_no_other_room_imports_a_systems_own_file() -> None:
    """But for meters and limits that only Linux has, which look at its texts."""
    own = re.compile(r"edgedec\.system\.((?:linux|macos|windows|posix|psutil)\w*)")
    found = {
        (relative(file), module)
        for file in places()
        for module in own.findall(file.read_text(encoding="utf-8"))
    }
    assert {module for _, module in found} <= {"linux_texts"}
    linux = {"edgedec/bench/harness/cgroups.py"}
    assert {file for file, _ in found if not file.startswith("edgedec/telemetry/energy/")} <= linux


def test_files_of_text_have_the_same_bytes_on_every_system() -> None:
    """Windows would end their lines otherwise, and a bundle that was made there would have other hashes."""
    writes = re.compile(r"\.write_text\((?!.*newline=)")
    found = {
        relative(file)
        for file in places()
        for line in file.read_text(encoding="utf-8").splitlines()
        if writes.search(line)
    }
    linux, formatter_of_click = "edgedec/bench/harness/cgroups.py", "cli/command.py"
    assert found == {linux, formatter_of_click}


def test_the_room_stands_on_the_standard_library_alone() -> None:
    imports = re.compile(r"^\s*(?:from|import) (\w+)", re.M)
    found = {
        name
        for file in sorted((ROOT / ROOM).glob("*.py"))
        for name in imports.findall(file.read_text(encoding="utf-8"))
    }
    assert found - set(sys.stdlib_module_names) <= {"edgedec", "psutil"}
