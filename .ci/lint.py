"""Style, types and layers: `python .ci/lint.py`, or one of them: `python .ci/lint.py types`.

The folders export/, kernels/, models/ and cli/ become part of the package only when it is installed, so mypy
and import-linter look at a tree of links that has the installed shape (build/lint/edgedec).
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TREE = ROOT / "build" / "lint"
SYSTEMS = ("linux", "darwin", "win32")
MAPPED = ("export", "kernels", "models", "cli")

# An editable install finds edgedec by a hook of its own, before the path; the layers are those of the tree.
LINT_IMPORTS = """
import sys
sys.meta_path[:] = [finder for finder in sys.meta_path if "Redirecting" not in type(finder).__name__]
sys.path.insert(0, ".")
from importlinter.cli import lint_imports
sys.exit(lint_imports(config_filename=sys.argv[1], no_cache=True, is_debug_mode=False))
"""


def tree() -> Path:
    """Make the package's installed shape out of links, where it is not yet; return the folder that holds it.

    Links that are right stay: another check may read them.
    """
    package = TREE / "edgedec"
    package.mkdir(parents=True, exist_ok=True)
    sources = [*(ROOT / "edgedec").iterdir(), *(ROOT / name for name in MAPPED)]
    wanted = {source.name: source for source in sources if source.name != "__pycache__"}
    for link in package.iterdir():
        if link.is_symlink() and wanted.get(link.name) != link.readlink():
            link.unlink(missing_ok=True)
    for name, source in wanted.items():
        with contextlib.suppress(FileExistsError):
            (package / name).symlink_to(source)
    return TREE


def run(*command: str, where: Path = ROOT) -> int:
    return subprocess.run([sys.executable, *command], cwd=where, check=False).returncode


def style() -> int:
    return run("-m", "ruff", "check", ".")


def types() -> int:
    """Check types for each system, side by side: the files of one are read for that one alone."""
    where, settings = tree(), ["--config-file", str(ROOT / "pyproject.toml"), "-p", "edgedec"]
    runs = []
    for system in SYSTEMS:
        own = ["--platform", system, "--cache-dir", f".mypy_cache/{system}"]
        command = [sys.executable, "-m", "mypy", *settings, *own]
        runs.append(subprocess.Popen(command, cwd=where, stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
    found = 0
    for system, one in zip(SYSTEMS, runs, strict=True):
        said = one.communicate()[0].decode()
        print(f"types on {system}: {said}", end="", flush=True)
        found |= one.returncode
    return found


def layers() -> int:
    return run("-c", LINT_IMPORTS, str(ROOT / "pyproject.toml"), where=tree())


CHECKS: dict[str, Callable[[], int]] = {"style": style, "types": types, "layers": layers}


def main(names: list[str]) -> int:
    if unknown := set(names) - set(CHECKS):
        sys.exit(f"no such check: {', '.join(sorted(unknown))} (there are {', '.join(CHECKS)})")
    return max([CHECKS[name]() for name in names or CHECKS])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
