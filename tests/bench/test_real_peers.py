"""Real runtimes on a real model, all in one run: that they do what is asked, not how fast.

Needs EDGEDEC_TEST_GGUF, a directory with smollm2.gguf, and EDGEDEC_TEST_PEERS: values of
``NAME=PYTHON``, by comma.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from edgedec.bench.harness.runtimes import OTHERS
from edgedec.cli.services import Services
from edgedec.export import export_gguf
from edgedec.models import Store
from tests.cli.support import run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("peers")
    export_gguf(_gguf(), folder / "bundle")
    return folder


def _gguf() -> Path:
    folder = os.environ.get("EDGEDEC_TEST_GGUF")
    assert folder, "set EDGEDEC_TEST_GGUF to the directory of the real models"
    return Path(folder) / "smollm2.gguf"


def bench(folder: Path, *args: str) -> dict[str, Any]:
    return drafts(folder, *args, "--repeat", "2")


def drafts(folder: Path, *args: str) -> dict[str, Any]:
    """Run a study without rounds."""
    pythons = os.environ.get("EDGEDEC_TEST_PEERS")
    assert pythons, "set EDGEDEC_TEST_PEERS to the interpreters of the peers"
    by_name = dict(python.split("=", 1) for python in pythons.split(",") if "=" in python)
    usual = next((python for python in pythons.split(",") if "=" not in python), sys.executable)
    at = args.index("--peer") + 1
    peers = [f"{name}={by_name.get(name, usual)}" for name in args[at].split(",")]
    more = [word for peer in peers for word in ("--peer", peer)]
    args = (*args[: at - 1], *more, *args[at + 1 :])
    services = Services(store=lambda: Store(folder / "home"), bandwidth=lambda size, threads: 10.0)
    model = ["-m", str(_gguf()), "--json"]
    result = run(services, "bench", *args, *model)
    assert result.exit_code == 0, result.output
    facts: dict[str, Any] = json.loads(result.stdout)
    return facts


def test_all_peers_run_long_prompts(folder: Path) -> None:
    (folder / "long.txt").write_text("The cat sat on the mat. " * 100, encoding="utf-8")
    args = ["--peer", ",".join(OTHERS), "--input", str(folder / "long.txt"), "--max-tokens", "4"]
    facts = bench(folder, "speed", *args)
    assert facts["prompt_tokens"][0] > 500
    assert list(facts["ratios"]) == list(OTHERS)
    for side in facts["sides"].values():
        assert side["prefill_tokens_per_s"]["median"] > side["decode_tokens_per_s"]["median"] > 0
        assert side["peak_rss_bytes"] > 80e6  # no less than the weights
    assert facts["sides"]["transformers"]["peak_rss_bytes"] > 4 * 134e6
    assert facts["sides"]["edgedec"]["memory_bytes"]["surplus"] < 120e6
    assert "quantised again" in facts["sides"]["onnxruntime-genai"]["isa"]
    made = list((folder / "home" / "peers").glob("*/*"))
    assert [path.name.startswith("onnxruntime-genai-") for path in made] == [True]


def test_passes_of_llama_cpp(folder: Path) -> None:
    facts = bench(folder, "kernels", "--peer", "llama.cpp", "--tokens", "1,64", "--resident", "600")
    one, many = facts["peers"]["llama.cpp"]
    assert many["ms"] > one["ms"] > 0
    assert one["ratio"] > 0
    assert facts["versions"]["llama.cpp"].startswith("llama-cpp-python")


def test_all_ways_to_draft_on_a_text_that_repeats(folder: Path, tmp_path: Path) -> None:
    line = {"question_id": 1, "category": "rag", "turns": ["Say this five times: a big red dog. " * 5]}
    (tmp_path / "q.jsonl").write_text(json.dumps(line), encoding="utf-8")
    names = ["llama.cpp", "llama.cpp-ngram"]
    args = ["drafts", "--input", str(tmp_path / "q.jsonl"), "--draft", "lookup", "--draft", "auto"]
    facts = drafts(folder, *args, "--max-tokens", "40", "--peer", ",".join(names))
    scores = facts["overall"]
    assert list(scores) == ["edgedec", "edgedec+lookup", "edgedec+auto", *names]
    assert all(found["replies"] == 0 for found in facts["differing_replies"].values())
    assert scores["llama.cpp"]["block_efficiency"] == 1.0
    assert scores["edgedec+lookup"]["block_efficiency"] > 1.2
    assert scores["llama.cpp-ngram"]["decoded_tokens"] == scores["llama.cpp"]["decoded_tokens"]
