"""A clone on a machine that was never used, for the examples of README and guide."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from edgedec.core.errors import NotFoundError
from edgedec.export import export_huggingface
from edgedec.models import Store
from tests.conftest import ROOT
from tests.fixtures.tiny_bert import write_bert
from tests.fixtures.tiny_gguf import write_tiny
from tests.fixtures.tiny_huggingface import write_huggingface
from tests.project.examples import README, Block, Example

LIMIT_S = 1800.0
PASSED_ON = ("LANG", "SSL_CERT_FILE", "TMPDIR")
PASSED_ON_PREFIXES = ("PIP_", "HTTP", "NO_PROXY", "http", "no_proxy")
"""Where the package index is, and how to get there."""


def change(folder: Path) -> None:
    with (folder / "CHANGELOG.md").open("a", encoding="utf-8") as file:
        file.write("\n- Replies end where the model ends them.\n")


def tiny_model(folder: Path) -> None:
    write_tiny(folder / "model.gguf")


def tiny_directory(folder: Path) -> None:
    write_huggingface(folder / "Qwen3-0.6B", write_tiny(folder / "tiny.gguf", "qwen3"))


def questions(folder: Path) -> None:
    (folder / "questions.txt").write_text("Name a river.\nName a colour.\nName a fruit.\n", encoding="utf-8")


def book(folder: Path) -> None:
    (folder / "book.txt").write_text("A lighthouse stands on the last rock of the coast. " * 400, "utf-8")


def encoder(folder: Path) -> None:
    export_huggingface(write_bert(folder / "bert"), folder / "my-encoder")
    (folder / "lines.txt").write_text("the cat sat\nwhy is the sky blue\n", encoding="utf-8")


FILES: Mapping[str, Callable[[Path], None]] = {
    "a change": change,
    "model.gguf": tiny_model,
    "Qwen3-0.6B": tiny_directory,
    "questions.txt": questions,
    "book.txt": book,
    "my-encoder": encoder,
}
"""Things that a reader has and a clone has not, by name."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A fresh clone and an empty home below ``root``."""

    root: Path

    @property
    def clone(self) -> Path:
        return self.root / "edgedec"

    @property
    def python(self) -> Path:
        return self.clone / ".venv/bin/python"

    def make(self) -> None:
        """Clone the commit that is checked out."""
        (self.root / "home").mkdir()
        command = ["git", "-c", "safe.directory=*", "clone", "--quiet", "--no-hardlinks", ROOT, self.clone]
        subprocess.run(command, check=True)

    def folder(self, page: str) -> Path:
        """Where the examples of a page run: those of the README in the clone, others away from it."""
        if page == README:
            return self.clone
        folder = self.root / Path(page).stem
        folder.mkdir(exist_ok=True)
        return folder

    def prepare(self, example: Example) -> None:
        """Make its files; models that the tester has installed are linked, others will be downloaded."""
        for name in example.files:
            FILES[name](self.folder(example.page))
        for name in example.models:
            target = self.root / "home/.cache/edgedec/models" / name
            try:
                source = Store().path(name)
            except NotFoundError:
                continue
            if not target.exists():
                shutil.copytree(source, target, copy_function=link_or_copy)

    def run(self, block: Block, example: Example) -> subprocess.CompletedProcess[str]:
        """Run a block as a reader with an activated environment does."""
        shell = ["bash", "-euo", "pipefail", "-c", block.script]
        python = [str(self.python), "-c", block.script]
        return subprocess.run(
            python if block.language == "python" else shell,
            cwd=self.folder(block.page),
            env=self._environment() | dict(example.variables),
            input=example.stdin,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )

    def has(self, package: str) -> bool:
        """Whether the clone's environment has a package."""
        return subprocess.run([self.python, "-c", f"import {package}"], capture_output=True).returncode == 0

    def _environment(self) -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if name in PASSED_ON or name.startswith(PASSED_ON_PREFIXES)
        }
        interpreter = Path(getattr(sys, "_base_executable", sys.executable)).parent
        path = f"{self.python.parent}:{interpreter}:/usr/local/bin:/usr/bin:/bin"
        settings = Path.home() / ".config/pip/pip.conf"
        if settings.exists():
            kept.setdefault("PIP_CONFIG_FILE", str(settings))
        return {**kept, "HOME": str(self.root / "home"), "PATH": path}


def link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
