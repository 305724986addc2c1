"""Commands start light: the modules that they import, in place of seconds, which depend on the machine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures.tiny_models import tiny_bundle

_RUN = """
import json, sys
from edgedec.cli import app, screen
def report():
    print(json.dumps(sorted(sys.modules)), file=sys.stderr)
show = screen.show
def told(piece):
    screen.show = show
    report()
    show(piece)
screen.show = told
try:
    app.run()
finally:
    if screen.show is told:
        report()
"""
"""Lists the modules that are there as the first piece of a reply is shown, or else at the end."""
LATER = {
    *("jinja2", "llguidance", "rich", "prompt_toolkit", "pygments", "markdown_it"),
    *("httpx", "huggingface_hub"),
    *("onnx", "gguf", "safetensors", "torch", "transformers", "llama_cpp", "matplotlib", "wgpu"),
    *("starlette", "uvicorn", "pydantic", "prometheus_client"),
    *("asyncio", "concurrent.futures", "decimal", "email", "importlib.metadata", "importlib.resources"),
    *("logging", "random", "secrets", "shutil", "socket", "subprocess", "tempfile", "tomllib"),
    *("xml", "zipfile"),
}
"""Modules that a short reply does without, and the start with them."""
TOOLS = {"numpy", "onnxruntime", "tokenizers"}


def modules(home: Path, *arguments: str) -> set[str]:
    """Return the modules that a command has imported at its first piece of text."""
    environment = os.environ | {"EDGEDEC_HOME": str(home)}
    command = [sys.executable, "-c", _RUN, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("["))
    return set(json.loads(line))


def own(found: set[str]) -> int:
    return sum(name.partition(".")[0] == "edgedec" for name in found)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one model, which has a chat template."""
    folder = tmp_path_factory.mktemp("home")
    shutil.copytree(tiny_bundle(tmp_path_factory.mktemp("models")), folder / "models" / "tiny")
    return folder


def test_the_first_token_of_generate_needs_few_modules(home: Path) -> None:
    found = modules(home, "generate", "-m", "tiny", "-p", "Hello", "--max-tokens", "2")
    assert found & LATER == set()
    assert "onnxruntime" in found
    assert own(found) <= 300


@pytest.mark.parametrize(("name", "most"), [("--help", 20), ("list", 60)])
def test_commands_without_a_model_import_no_runtime(home: Path, name: str, most: int) -> None:
    found = modules(home, name)
    assert found & (LATER | TOOLS) <= {"shutil", "tomllib"}
    assert own(found) <= most
