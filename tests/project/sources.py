"""The files of the checkout, and their syntax trees, for the tests of its rules."""

from __future__ import annotations

import ast
import subprocess
from functools import cache
from pathlib import Path

from tests.conftest import ROOT

ROOMS = ("edgedec", "export", "kernels", "models", "cli")
"""Top-level folders that are installed."""


@cache
def sources() -> tuple[Path, ...]:
    """Tracked and new files, without those that git ignores."""
    listed = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return tuple(ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file())


def relative(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


@cache
def modules() -> tuple[Path, ...]:
    """Python files that are installed."""
    return tuple(file for file in sources() if file.suffix == ".py" and relative(file).split("/")[0] in ROOMS)


def libraries() -> tuple[Path, ...]:
    """Installed Python files outside the command line."""
    return tuple(file for file in modules() if not relative(file).startswith("cli/"))


@cache
def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


@cache
def nodes(file: Path) -> tuple[ast.AST, ...]:
    """All that is in a file's tree, walked once for the rules that look at everything."""
    return tuple(ast.walk(tree(file)))


def documents() -> tuple[Path, ...]:
    """Markdown files."""
    return tuple(file for file in sources() if file.suffix == ".md")
