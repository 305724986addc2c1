"""Vectors of a tiny BERT against NumPy, alone and together, on every kernel row, and within a budget."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from tokenizers import Tokenizer

import edgedec
from edgedec.core.errors import MemoryBudgetError, UnsupportedError, UsageError
from edgedec.embed.encoder import Encoder, batches, load_encoder, shortened, together
from edgedec.export import export_huggingface
from edgedec.text.whole_texts import TokenText
from tests.fixtures.tiny_bert import CONFIG, TEXTS, write_bert
from tests.kernels.float_rows import F32, same_bits
from tests.reference.bert import F64, hidden_states

POOLED = {
    "mean_tokens": lambda x: x.mean(0),
    "cls_token": lambda x: x[0],
    "lasttoken": lambda x: x[-1],
}


def expected(directory: Path, texts: list[str], pooling: str = "mean_tokens", unit: bool = True) -> F64:
    """The vectors by NumPy."""
    tensors = load_file(directory / "model.safetensors")
    library = Tokenizer.from_file(str(directory / "tokenizer.json"))
    library.enable_truncation(CONFIG["max_position_embeddings"])
    found = [library.encode(text) for text in texts]
    rows = np.array([POOLED[pooling](hidden_states(tensors, CONFIG, one.ids, one.type_ids)) for one in found])
    return rows / np.linalg.norm(rows, axis=1, keepdims=True) if unit else rows


def test_vectors_are_those_of_the_definition(encoder: Encoder, bert: Path) -> None:
    found = encoder.embed(TEXTS)
    assert found.vectors.shape == (len(TEXTS), 64)
    assert found.vectors.dtype == np.float32
    np.testing.assert_allclose(found.vectors, expected(bert, TEXTS), atol=2e-4)
    np.testing.assert_allclose(np.linalg.norm(found.vectors, axis=1), 1, atol=1e-6)


@pytest.mark.parametrize(("pooling", "modules"), [
    ("cls_token", ("Transformer", "Pooling", "Normalize")), ("lasttoken", ("Transformer", "Pooling")),
])  # fmt: skip
def test_pooling_and_length_are_the_models_own(
    tmp_path: Path, pooling: str, modules: tuple[str, ...]
) -> None:
    directory = write_bert(tmp_path / "model", pooling=pooling, modules=modules)
    export_huggingface(directory, tmp_path / "bundle")
    found = load_encoder(tmp_path / "bundle").embed(TEXTS).vectors
    unit = "Normalize" in modules
    np.testing.assert_allclose(found, expected(directory, TEXTS, pooling, unit), atol=2e-3)
    assert unit or np.abs(np.linalg.norm(found, axis=1) - 1).max() > 0.1


def test_a_batch_has_the_bits_of_its_texts_alone(encoder: Encoder, bundle: Path) -> None:
    texts = [TEXTS[at % len(TEXTS)] + " cat" * (at % 7) for at in range(64)]
    together = encoder.embed(texts).vectors
    alone = np.concatenate([encoder.embed([text]).vectors for text in texts])
    assert same_bits(together, alone)
    assert same_bits(load_encoder(bundle, threads=2).embed(texts[::-1]).vectors, together[::-1])


_SCRIPT = """
import sys, numpy as np
from pathlib import Path
from edgedec.embed.encoder import load_encoder
np.save(sys.argv[2], load_encoder(Path(sys.argv[1]), threads=1).embed(sys.argv[3:]).vectors)
"""


@pytest.mark.parametrize("isa", ["scalar", "avx2", "avx_vnni", "avx512_vnni", "neon_dotprod", "neon_i8mm"])
def test_every_kernel_row_has_the_same_bits(encoder: Encoder, bundle: Path, tmp_path: Path, isa: str) -> None:
    command = [sys.executable, "-c", _SCRIPT, str(bundle), str(tmp_path / "x.npy"), *TEXTS]
    made = subprocess.run(command, env={**os.environ, "EDGEDEC_ISA": isa}, capture_output=True, text=True)
    if "EDGEDEC_ISA" in made.stderr:
        pytest.skip(f"{isa} cannot run here")
    assert made.returncode == 0, made.stderr
    found: F32 = np.load(tmp_path / "x.npy")
    assert same_bits(found, encoder.embed(TEXTS).vectors)


def test_prompts_go_in_front(encoder: Encoder) -> None:
    asked = encoder.embed(["the sky blue"], kind="query").vectors
    assert same_bits(asked, encoder.embed(["why is the sky blue"]).vectors)
    assert same_bits(encoder.embed(["sky"], kind="document").vectors, encoder.embed(["the sky"]).vectors)
    assert same_bits(encoder.embed(["sky"], kind="other").vectors, encoder.embed(["sky"]).vectors)


def test_a_long_text_is_cut_and_told(encoder: Encoder) -> None:
    lines: list[str] = []
    long = "cat " * 100
    found = encoder.embed([long, "cat", "dog " * 3000], notice=lines.append)
    assert found.cut == 2
    assert lines == ["2 texts were longer than the model's context of 40 tokens and cut"]
    assert same_bits(found.vectors[:1], encoder.embed(["cat " * 38]).vectors)


def test_a_text_of_few_tokens_may_have_many_characters(encoder: Encoder) -> None:
    found = encoder.embed(["cat" + " " * 100_000 + "dog"])
    assert found.cut == 0 or found.tokens == 4
    assert same_bits(found.vectors, encoder.embed(["cat dog"]).vectors)


def test_the_text_of_a_control_token_is_text(encoder: Encoder) -> None:
    assert encoder.embed(["cat [SEP] dog"]).tokens > encoder.embed(["cat dog"]).tokens + 1
    assert encoder.embed(["a \ud800 b"]).tokens == encoder.embed(["a \ufffd b"]).tokens


def test_token_ids_are_taken_as_they_are(encoder: Encoder) -> None:
    ids = [2, 5, 7, 3]
    assert same_bits(encoder.embed([ids, "the cat"]).vectors[0], encoder.embed(["the cat"]).vectors[0])
    for wrong in ([], [999], [-1]):
        with pytest.raises(UsageError, match="token ids"):
            encoder.embed([wrong])


def test_vectors_can_be_cut_to_fewer_dimensions(encoder: Encoder) -> None:
    whole, short = encoder.embed(TEXTS).vectors, encoder.embed(TEXTS, dimensions=16).vectors
    assert short.shape == (len(TEXTS), 16)
    np.testing.assert_allclose(np.linalg.norm(short, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(short * whole[:, :1] / short[:, :1], whole[:, :16], rtol=1e-4, atol=1e-6)
    assert same_bits(encoder.embed(TEXTS, dimensions=64).vectors, whole)
    assert not shortened(np.zeros((1, 8), np.float32), 4).any()
    for wrong in (0, 65):
        with pytest.raises(UsageError, match="1 to 64 dimensions"):
            encoder.embed(TEXTS, dimensions=wrong)


def test_batches_keep_to_their_tokens() -> None:
    texts = [TokenText([0] * count, [0] * count) for count in (5, 5, 1, 30, 2, 2)]
    found = [[len(one.ids) for one in batch] for batch in batches(texts, 10)]
    assert found == [[5, 5], [1], [30], [2, 2]]


def test_few_texts_become_tokens_at_a_time() -> None:
    parts = [*together([10] * 130 + [60_000, 60_000, 1])]
    assert [(one.start, one.stop) for one in parts] == [(0, 64), (64, 128), (128, 131), (131, 133)]
    assert [*together([])] == []


_PEAK = """
import random, sys
from pathlib import Path
from edgedec.embed.encoder import load_encoder
from edgedec.system.memory import peak_rss_bytes
encoder = load_encoder(Path(sys.argv[1]), threads=2, memory=int(sys.argv[2]))
words = "the a cat dog sat on mat blue sky is why run".split()
texts = [" ".join(random.choices(words, k=random.choice([3, 30, 300]))) for _ in range(400)]
encoder.embed([*texts, "cat " * 100_000])
print(peak_rss_bytes(), encoder.plan.total)
"""


def test_the_process_keeps_to_the_plan(bundle: Path) -> None:
    command = [sys.executable, "-c", _PEAK, str(bundle), "300000000"]
    made = subprocess.run(command, capture_output=True, text=True, check=True)
    peak, planned = map(int, made.stdout.split())
    assert peak <= planned <= 300_000_000


def test_a_budget_that_is_too_small_is_refused_with_one_that_is_not(bundle: Path) -> None:
    with pytest.raises(MemoryBudgetError, match="too small for tiny-bert, which needs") as caught:
        load_encoder(bundle, memory=1_000_000)
    (remedy,) = caught.value.remedies
    encoder = load_encoder(bundle, memory=int(remedy.value or 0) + (16 << 20))
    assert encoder.context <= encoder.plan.tokens
    assert encoder.plan.total <= int(remedy.value or 0) + (16 << 20)


def test_nothing_is_no_text(encoder: Encoder) -> None:
    assert encoder.embed([]).vectors.shape == (0, 64)


def test_a_model_that_makes_vectors_does_not_reply(bundle: Path) -> None:
    with pytest.raises(UnsupportedError, match="makes vectors of texts and no replies"):
        edgedec.open(bundle)


def test_vectors_rank_too(encoder: Encoder) -> None:
    documents = ["the cat sat", "sky", "blue sky ."]
    scores = encoder.rank("the sky blue", documents).vectors
    query, others = encoder.embed(["the sky blue"], kind="query"), encoder.embed(documents, kind="document")
    np.testing.assert_allclose(scores[:, 0], others.vectors @ query.vectors[0], atol=1e-6)
