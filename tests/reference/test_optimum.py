"""Architectures that EdgeDec does not build, exported with optimum: transformers' logits and greedy tokens.

Needs torch, transformers and optimum (extra ``optimum``): ``python -m pytest -m slow -s tests/reference``.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from edgedec.backends.optimum import DecoderForward
from edgedec.bundle.manifest import Manifest
from edgedec.core.rows import Rows
from edgedec.decode.engine import Engine
from edgedec.export import export_huggingface
from edgedec.export.tokenizer import build_tokenizer
from edgedec.sampling import DrawParams
from tests.fixtures.opened import decoder_forward
from tests.fixtures.tiny_tokenizers import bpe_metadata

pytestmark = pytest.mark.slow

PROMPT = [3, 9, 270, 41, 5, 5, 100, 17, 260, 33, 8, 64]
NEW = 36
SIZES = {
    "vocab_size": 320,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
WIDE = {**SIZES, "intermediate_size": 96, "max_position_embeddings": 128}
GROUPED = {**WIDE, "num_key_value_heads": 2}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("gpt2", {**SIZES, "max_position_embeddings": 128}),
    "gpt_neox": ("gpt_neox", WIDE),
    "opt": ("opt", {**SIZES, "ffn_dim": 96, "max_position_embeddings": 128, "word_embed_proj_dim": 64}),
    "bloom": ("bloom", SIZES),  # no positions: ALiBi
    "olmo": ("olmo", GROUPED),
    "stablelm": ("stablelm", GROUPED),
    "mistral": ("mistral", {**GROUPED, "sliding_window": 8}),
}


class Made(NamedTuple):
    """A model in transformers' hands and the bundle made of what it saved."""

    model: Any
    bundle: Path

    def greedy(self) -> tuple[list[int], NDArray[np.float32]]:
        """Prompt and reply as transformers generates it, and logits f32[T,V] of all but its last token."""
        import torch

        options = {"max_new_tokens": NEW, "do_sample": False, "eos_token_id": None}
        with torch.no_grad():
            whole = self.model.generate(torch.tensor([PROMPT]), **options)
            logits: NDArray[np.float32] = self.model(whole[:, :-1]).logits[0].numpy()
        return whole[0].tolist(), logits

    def forward(self) -> DecoderForward:
        return decoder_forward(self.bundle, Manifest.load(self.bundle), spin=False)


@pytest.fixture(scope="module", params=MODELS)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("optimum")
    kind, options = MODELS[request.param]
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.for_model(kind, **options))
    with torch.no_grad():  # the usual start is so narrow that all logits are nearly the same
        for weight in model.parameters():
            if weight.ndim == 2:
                weight.normal_(0, 4 * weight.shape[-1] ** -0.5)
    folder = tmp_path_factory.mktemp(request.param)
    model.eval().save_pretrained(folder / "source")
    (folder / "source" / "tokenizer.json").write_text(build_tokenizer(bpe_metadata())[0])
    export_huggingface(folder / "source", folder / "bundle")
    return Made(model, folder / "bundle")


@pytest.mark.parametrize("pieces", [(48,), (1, 7, 2, 38)])
def test_the_same_logits(made: Made, pieces: tuple[int, ...]) -> None:
    whole, expected = made.greedy()
    tokens, forward, got = whole[:-1], made.forward(), []
    for size in pieces:
        start = forward.length
        rows = forward.extend(tokens[start : start + size], rows=Rows(full=True))
        assert rows.logits is not None
        got.append(rows.logits)
    error, largest = np.abs(np.concatenate(got) - expected).max(), np.abs(expected).max()
    print(f"\n{pieces}: max |difference| {error:.1e}, logits up to {largest:.2f}")
    assert expected.std() > 0.3
    assert error < 1e-5 * largest


def test_the_same_greedy_tokens(made: Made) -> None:
    whole, _ = made.greedy()
    steps = Engine(made.forward()).generate(PROMPT, DrawParams(), max_tokens=NEW, stop_ids=())
    got = [step.token for step in steps]
    print(f"\n{len(set(got))} different tokens of {NEW}: {got[:12]} ...")
    assert got == whole[len(PROMPT) :]
    assert len(set(got)) > 3


def test_generate_runs_it(made: Made) -> None:
    command = [sys.executable, "-m", "edgedec.cli.main", "generate", "-m", str(made.bundle), "--raw"]
    options = ["-p", "hello", "--max-tokens", "4", "--temperature", "0", "--json"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=True)
    report = json.loads(done.stdout)
    assert report["stats"]["isa"] == "onnxruntime"
    assert len(report["tokens"]) >= 1
