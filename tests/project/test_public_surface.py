"""What other programs may rely on: exported names, the error tree and its exit codes."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from edgedec.core import errors
from tests.conftest import ROOT
from tests.patience import PATIENCE_S

EXPORTED = {
    "edgedec": [
        "AboutText",
        "BackendError",
        "BadFileError",
        "Chat",
        "ContextFullError",
        "Conversations",
        "DownloadError",
        "DraftTree",
        "Drafter",
        "EdgeDecError",
        "Encoder",
        "GrammarError",
        "Infill",
        "MemoryBudgetError",
        "Message",
        "Model",
        "NotFoundError",
        "Reply",
        "RunConfig",
        "SamplingParams",
        "StorageError",
        "TemplateError",
        "ToolCall",
        "UnsupportedError",
        "UsageError",
        "__version__",
        "add_drafter",
        "open",
        "open_encoder",
    ],
    "edgedec.export": [
        "BACKENDS",
        "QUANTS",
        "ROLES",
        "TARGETS",
        "ModelCard",
        "NpuPlan",
        "WithAdapters",
        "check_huggingface",
        "export_for_npu",
        "export_gguf",
        "export_huggingface",
        "huggingface_files",
    ],
    "edgedec.memory": [
        "CacheBook",
        "KvType",
        "PlannedPass",
        "StateBook",
        "kv_bytes",
        "kv_row_bytes",
        "kv_row_name",
        "most_undone",
        "ring_kept",
        "ring_keys",
        "ring_slots",
        "slot_bytes",
        "state_bytes",
        "whole_keys",
    ],
    "edgedec.models": (
        [
            "CATALOGUE",
            "DEFAULT_MODEL",
            "RECIPES",
            "Entry",
            "HubFile",
            "Installed",
            "Licence",
            "Recipe",
            "Store",
            "Wheel",
        ]
    ),
    "edgedec.sampling": ["DrawParams"],
}
DRAWN = re.compile(
    r"^(?P<indent>[│├└─ ]*)(?P<name>\w+(?:Error|Lost))\s+(?:exit code )?(?P<code>\d+)", re.MULTILINE
)


def drawn_tree() -> list[tuple[str, str, int]]:
    """(class, parent, exit code) as drawn at the top of edgedec/core/errors.py."""
    above: list[str] = []
    found = []
    for match in DRAWN.finditer(errors.__doc__ or ""):
        depth = len(match["indent"]) // 4
        above[depth:] = [match["name"]]
        found.append((match["name"], above[depth - 1] if depth else "Exception", int(match["code"])))
    return found


def own(kind: type[errors.EdgeDecError]) -> list[type[errors.EdgeDecError]]:
    """Its subclasses in the errors module; a layer may refine one for itself, but keeps the exit code."""
    return [child for child in kind.__subclasses__() if child.__module__ == errors.__name__]


def real_tree(root: type[errors.EdgeDecError] = errors.EdgeDecError) -> list[tuple[str, str, int]]:
    below = [entry for child in own(root) for entry in real_tree(child)]
    return [(root.__name__, root.__mro__[1].__name__, root.exit_code), *below]


@pytest.mark.parametrize("module", EXPORTED)
def test_exported_names(module: str) -> None:
    loaded = import_module(module)
    assert loaded.__all__ == EXPORTED[module]
    assert [name for name in EXPORTED[module] if not hasattr(loaded, name)] == []


def test_the_drawn_error_tree_is_the_real_one() -> None:
    assert drawn_tree() == real_tree()


def test_exit_codes_are_distinct_except_where_a_kind_refines_another() -> None:
    kinds = [errors.EdgeDecError, *own(errors.EdgeDecError)]
    assert len({kind.exit_code for kind in kinds}) == len(kinds)


def test_exit_codes_are_documented() -> None:
    guide = (ROOT / "docs" / "guide" / "exit-status.md").read_text(encoding="utf-8")
    documented = {int(code) for code in re.findall(r"^\| (\d+) \|", guide, re.MULTILINE)}
    cli = import_module("edgedec.cli.errors")
    raised = {code for _, _, code in real_tree()}
    assert documented == raised | {0, cli.INTERRUPTED, cli.BROKEN_PIPE, cli.TERMINATED, cli.INTERNAL}


IN_A_CLONE = """
import sys
from importlib import machinery
sys.meta_path[:] = [machinery.BuiltinImporter, machinery.FrozenImporter, machinery.PathFinder]
sys.path.insert(0, sys.argv[1])
import edgedec
try:
    edgedec.open
except ImportError as error:
    print(error)
"""


def test_the_folder_of_a_clone_says_that_it_is_not_the_package(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "edgedec", tmp_path / "edgedec", ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-c", IN_A_CLONE, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    assert "start Python in another folder" in done.stdout
