"""Commands start light: the modules that they import, in place of seconds, which depend on the machine."""

from __future__ import annotations

import gc
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.tiny_models import tiny_bundle

_RUN = """
import atexit, gc, json, os, sys
from edgedec.cli import main, screen
def report():
    seen = {"threshold": gc.get_threshold()[0], "frozen": gc.get_freeze_count()}
    seen |= {"modules": sorted(sys.modules), "blas": os.environ.get("OPENBLAS_NUM_THREADS")}
    print(json.dumps(seen), file=sys.stderr)
show = screen.show
def told(piece):
    screen.show = show
    report()
    show(piece)
screen.show = told
atexit.register(lambda: report() if screen.show is told else None)
main.main()
"""
"""Tells of the modules that are there as the first piece of a reply is shown, or else at the end."""
LATER = {
    *("jinja2", "llguidance", "rich", "prompt_toolkit", "pygments", "markdown_it"),
    *("httpx", "huggingface_hub"),
    *("onnx", "gguf", "safetensors", "torch", "transformers", "llama_cpp", "wgpu"),
    *("starlette", "uvicorn", "pydantic", "prometheus_client"),
    *("asyncio", "concurrent.futures", "decimal", "email", "importlib.metadata", "importlib.resources"),
    *("logging", "random", "secrets", "shutil", "socket", "subprocess", "tempfile", "tomllib"),
    *("_hashlib", "traceback", "xml", "zipfile"),
}
"""Modules that a short reply does without, and the start with them."""
UNUSED = (
    *("edgedec.export", "edgedec.eviction.policies", "edgedec.grammar.vocabulary", "edgedec.text.tool_calls"),
    *("edgedec.backends.onnx.batcher", "edgedec.backends.onnx.sequences"),
    *("edgedec.draft.model", "edgedec.draft.exit", "edgedec.draft.assistant", "edgedec.draft.mtp"),
    *("edgedec.core_lib.layer_drafters", "edgedec.core_lib.drafters", "edgedec.drafters.pairing"),
)
"""Beginnings of names of modules for what a plain reply has not."""
TOOLS = {"numpy", "onnxruntime", "tokenizers"}


def seen(home: Path, *arguments: str, **variables: str) -> dict[str, Any]:
    """Return what is there at the first piece of text of a command."""
    environment = os.environ | {"EDGEDEC_HOME": str(home)} | variables
    command = [sys.executable, "-c", _RUN, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("{"))
    found: dict[str, Any] = json.loads(line)
    return found


def modules(home: Path, *arguments: str) -> set[str]:
    """Return the modules that a command has imported at its first piece of text."""
    return set(seen(home, *arguments)["modules"])


def told(code: str) -> str:
    """Return what a program prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


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
    assert {name for name in found if name.startswith(UNUSED)} == set()
    assert own(found) <= 245


def test_garbage_is_looked_for_from_the_first_token_on_and_not_before(home: Path) -> None:
    found = seen(home, "generate", "-m", "tiny", "-p", "Hello", "--max-tokens", "2")
    assert found["threshold"] == gc.get_threshold()[0]
    assert found["frozen"] > 10_000
    assert seen(home, "--help")["threshold"] > 10_000


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="threads are counted as Linux lists them")
def test_a_command_that_replies_starts_no_threads_for_products_of_matrices(home: Path) -> None:
    count = "print(len(os.listdir('/proc/self/task')), os.environ.get('OPENBLAS_NUM_THREADS'))"
    assert told(f"import os; from edgedec.cli import early; early.import_numpy(); {count}") == "1 None"
    assert told("import sys; from edgedec.cli import generate; print('numpy' in sys.modules)") == "False"
    chat = f"import os; from edgedec.cli.app import app; app.get_command(None, 'chat'); import numpy; {count}"
    assert told(chat) == "1 None"
    given = seen(home, "generate", "-m", "tiny", "-p", "Hello", "--max-tokens", "1", OPENBLAS_NUM_THREADS="2")
    assert given["blas"] == "2"


@pytest.mark.parametrize(("name", "most"), [("--help", 21), ("list", 65)])
def test_commands_without_a_model_import_no_runtime(home: Path, name: str, most: int) -> None:
    found = modules(home, name)
    assert found & (LATER | TOOLS) <= {"shutil", "tomllib"}
    assert own(found) <= most


_LEAVES = """
import atexit, sys, threading
from edgedec.cli.early import leave
atexit.register(lambda: print("registered"))
ended = threading.Event()
{}
leave({})
print("more")
ended.set()
"""


@pytest.mark.parametrize(
    ("before", "status", "printed", "code"),
    [
        ("", "3", ["registered"], 3),
        ("", "None", ["registered"], 0),
        ("threading.Thread(target=ended.wait, daemon=True).start()", "0", ["registered"], 0),
        ("threading.Thread(target=ended.wait).start()", "0", ["more", "registered"], 0),
        ("", "'a word'", ["more", "registered"], 0),
        ("sys.stderr.close()", "0", ["registered", "more"], 0),
    ],
    ids=["a status", "none", "a thread that nobody waits for", "a thread", "a word", "no output"],
)
def test_a_process_ends_at_once_unless_something_is_left_to_do(
    before: str, status: str, printed: list[str], code: int
) -> None:
    command = [sys.executable, "-c", _LEAVES.format(before, status)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.returncode) == (printed, code)
