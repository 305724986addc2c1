"""The example of docs/guide/embedding.md compiles without a warning as C99, and replies."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from edgedec import native
from edgedec.kernels.library import library_path
from edgedec.native.library import runtime_path
from tests.fixtures.tiny_models import tiny_bundle

ROOT = Path(__file__).parents[2]
COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
QUESTION = "What is 2+2?"


@pytest.mark.skipif(COMPILER is None, reason="no C compiler is installed")
def test_the_example_of_the_guide_compiles_and_replies(tmp_path: Path) -> None:
    guide = (ROOT / "docs" / "guide" / "embedding.md").read_text(encoding="utf-8")
    source, calls = re.findall(r"^```c\n(.*?)^```$", guide, re.S | re.M)
    assert QUESTION in source
    source = source.replace("static int fail", f"{calls}\nstatic int fail")
    asked = 'request.on_call = hear; request.tools = "[]"; request.max_tokens'
    source = source.replace("request.max_tokens", asked)
    (tmp_path / "example.c").write_text(source, encoding="utf-8")
    flags = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{ROOT / 'kernels' / 'engine'}"]
    library = library_path()
    command = [COMPILER, *flags, "example.c", str(library), f"-Wl,-rpath,{library.parent}", "-o", "example"]
    made = subprocess.run(list(map(str, command)), cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (made.returncode, made.stderr) == (0, "")
    bundle = tiny_bundle(tmp_path)
    with native.open(bundle, memory=4_000_000_000, costs=tmp_path / "costs") as model:
        expected = model.reply([{"role": "user", "content": QUESTION}], max_tokens=64).text
    run = ["./example", str(bundle), runtime_path()]
    told = subprocess.run(run, cwd=tmp_path, capture_output=True, check=False, timeout=120)
    assert (told.returncode, told.stderr) == (0, b"")
    assert told.stdout.decode() == expected != ""
    refused = subprocess.run([*run[:1], "nowhere", run[2]], cwd=tmp_path, capture_output=True, check=False)
    assert (refused.returncode, refused.stderr[:27]) == (3, b"error: no EdgeDec bundle at")
