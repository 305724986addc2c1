"""A Gemma 4 of E2B's true sizes within two fifths of its file: the peak beside plan and budget.

Writes some eight gigabytes: ``python -m pytest -m slow -s tests/soak/test_whole_gemma4.py``.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from edgedec.bundle.manifest import WEIGHTS, Manifest
from edgedec.export import export_gguf
from tests.fixtures.whole_gemma4 import write_whole

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the table is mapped into memory"),
]
_NEEDED = 10 << 30
_SHARE = 0.4
_RUN = """
import json, sys
import edgedec
config = edgedec.RunConfig(threads=2, context=1024, draft=sys.argv[3], memory=int(sys.argv[2]))
with edgedec.open(sys.argv[1], config) as model:
    reply = model.complete(" the hello ing er" * 10, max_tokens=12)
    reply.read()
    plan = model.stats(reply).plan
    print(json.dumps({"tokens": reply.tokens, "peak": plan.peak_rss, "planned": plan.planned}))
"""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    if shutil.disk_usage(folder).free < _NEEDED:
        pytest.skip("needs ten gigabytes of disk")
    gguf = write_whole(folder / "whole.gguf")
    export_gguf(gguf, folder / "bundle")
    gguf.unlink()
    return folder / "bundle"


def run(bundle: Path, budget: int, draft: str) -> dict[str, Any]:
    command = [sys.executable, "-c", _RUN, str(bundle), str(budget), draft]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=900)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_it_runs_within_two_fifths_of_its_file(bundle: Path) -> None:
    manifest = Manifest.load(bundle)
    weights = manifest.files[WEIGHTS].bytes
    budget = int(_SHARE * weights)
    assert manifest.spec.table_bytes > weights / 2
    plain, drafted = run(bundle, budget, "off"), run(bundle, budget, "lookup,recycling")
    read = weights - manifest.spec.table_bytes
    print(f"\nfile {weights / 1e6:.0f} MB, of which a pass reads {read / 1e6:.0f}; budget {budget / 1e6:.0f}")
    for name, one in (("plain", plain), ("drafts", drafted)):
        print(f"{name}: planned {one['planned'] / 1e6:.0f} MB, peak {one['peak'] / 1e6:.0f}")
        assert one["peak"] <= one["planned"] <= budget
    assert plain["tokens"] == drafted["tokens"]
