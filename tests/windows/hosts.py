"""The native engine behind lines of text, on either system: ``engine_host.cc``."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from edgedec.kernels.library import library_path
from tests.conftest import ROOT
from tests.native.native_runs import runtime
from tests.windows import cross


@dataclass
class Host:
    """The program of the tests, on one of the systems; it gets paths as that system writes them."""

    command: list[str]
    runtime: Path
    wine: bool

    def __post_init__(self) -> None:
        self._process = subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=cross.in_wine() if self.wine else dict(os.environ),
        )

    def ask(self, *words: object) -> list[str]:
        """The words of the answer: ok, or error with its code, message and hint."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        paths = (cross.windows_path(word) if self.wine and isinstance(word, Path) else word for word in words)
        self._process.stdin.write(("\t".join(map(str, paths)) + "\n").encode())
        self._process.stdin.flush()
        return self._process.stdout.readline().decode().rstrip("\r\n").split("\t")

    def open(self, bundle: Path, memory: int = 0, draft: str = "off") -> list[str]:
        return self.ask("open", bundle, self.runtime, 1, 512, memory, draft)

    def said(self, *words: object) -> str:
        done, *rest = self.ask(*words)
        assert done == "ok", rest
        return rest[0]

    def generate(
        self, ids: list[str], most: int = 64, temperature: float = 0.0
    ) -> tuple[list[str], int, int]:
        """The ids of a reply, tokens reused, drafted ones accepted."""
        return self._read("generate", most, temperature, 7, *ids)

    def form(self, schema: str, text: str, most: int, temperature: float) -> tuple[list[str], int, int]:
        """The same of a reply in the form of a JSON schema."""
        return self._read("form", most, temperature, 7, schema, text)

    def _read(self, *words: object) -> tuple[list[str], int, int]:
        reply, _, figures = self.said(*words).partition("; ")
        reused, accepted = map(int, figures.split())
        return reply.split(), reused, accepted

    def close(self) -> None:
        self._process.communicate()


def windows_host() -> Host:
    return Host(["wine", str(cross.windows_program("engine_host"))], Path(cross.RUNTIME), wine=True)


def linux_host(folder: Path) -> Host:
    """The program for this system, compiled into a folder."""
    made, library = folder / "engine_host", library_path()
    links = (library, f"-Wl,-rpath,{library.parent}")
    include = f"-I{ROOT / 'kernels'}"
    cross.run("c++", "-std=c++17", "-O1", include, cross.HOSTS["engine_host"], *links, "-o", made)
    return Host([str(made)], Path(os.fsdecode(runtime())), wine=False)
