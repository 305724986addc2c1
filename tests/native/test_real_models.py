"""Real models reply with the same tokens in the native engine and in Python, on every row of kernels."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache

import pytest

from edgedec.disk.home import default_home
from edgedec.kernels.library import available
from tests.fixtures.real_models import REAL_MODELS

pytestmark = pytest.mark.slow

PROGRAM = """
import json, sys
from pathlib import Path
import edgedec
from edgedec import native
from edgedec.sampling import DrawParams

name, home, tokens = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
text = "def fibonacci(n):\\n    # The first numbers are 0, 1, 1, 2, 3, 5, 8. The first numbers are"
sampled = DrawParams(temperature=0.8, top_p=0.95, repetition_penalty=1.05, seed=7)
params = {"greedy": DrawParams(), "sampled": sampled}
found, accepted = {}, 0
for draft in ("off", "lookup,recycling"):
    with native.open(home / "models" / name, context=512, draft=draft, costs=home / "costs") as model:
        for kind, one in params.items():
            reply = model.complete(text, sampling=one, max_tokens=tokens)
            found[f"native {draft} {kind}"] = reply.tokens
            accepted += int(reply.figures["accepted_tokens"])
with edgedec.open(name, context=512, draft="off") as model:
    for kind, one in params.items():
        reply = model.complete(text, sampling=one, max_tokens=tokens)
        reply.read()
        found[f"python {kind}"] = reply.tokens
print(json.dumps([found, accepted]))
"""


@cache
def replies(name: str, row: str, tokens: int) -> tuple[dict[str, list[int]], int]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, name, str(default_home()), str(tokens)],
        env={**os.environ, "EDGEDEC_ISA": row},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found, accepted = json.loads(done.stdout.splitlines()[-1])
    return found, accepted


@pytest.mark.parametrize("row", available())
@pytest.mark.parametrize("name", REAL_MODELS)
def test_tokens_are_pythons_and_those_of_the_best_row(name: str, row: str) -> None:
    if not (default_home() / "models" / name).is_dir():
        pytest.skip(f"{name} is not installed")
    tokens = 16 if row == "scalar" else 128  # the scalar row takes seconds for a token of the largest model
    found, accepted = replies(name, row, tokens)
    best, _ = replies(name, available()[0], 128)
    assert found == {kind: of_best[:tokens] for kind, of_best in best.items()}
    for kind in ("greedy", "sampled"):
        for draft in ("off", "lookup,recycling"):
            assert found[f"native {draft} {kind}"] == found[f"python {kind}"], (draft, kind)
    assert accepted > 0 or row == "scalar"
