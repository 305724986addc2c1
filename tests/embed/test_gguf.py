"""Encoders from GGUF files: the vectors of the same model from a directory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from edgedec.core.errors import UnsupportedError
from edgedec.embed.encoder import Encoder, load_encoder
from edgedec.export import export_gguf, export_huggingface
from edgedec.export.encoders.gguf_tokenizer import encoder_tokenizer
from tests.fixtures.tiny_bert import TEXTS, write_bert
from tests.fixtures.tiny_bert_gguf import write_bert_gguf
from tests.fixtures.tiny_gguf import write_tiny
from tests.kernels.float_rows import same_bits

RANKER = {"architectures": ["BertForSequenceClassification"], "id2label": {"0": "LABEL_0"}}


def opened(gguf: Path, out: Path) -> Encoder:
    export_gguf(gguf, out)
    return load_encoder(out, threads=1)


@pytest.mark.parametrize(("number", "pooling"), [(1, "mean_tokens"), (2, "cls_token")])
def test_a_file_has_the_vectors_of_its_directory(tmp_path: Path, number: int, pooling: str) -> None:
    directory = write_bert(tmp_path / "model", pooling=pooling)
    export_huggingface(directory, tmp_path / "from-directory")
    gguf = write_bert_gguf(directory, tmp_path / "tiny.gguf", pooling=number)
    found = opened(gguf, tmp_path / "from-file")
    assert found.name == "tiny-bert"
    expected = load_encoder(tmp_path / "from-directory", threads=1).embed(TEXTS)
    assert same_bits(found.embed(TEXTS).vectors, expected.vectors)
    assert found.embed(TEXTS).tokens == expected.tokens


def test_a_reranker_has_the_scores_of_its_directory(tmp_path: Path) -> None:
    directory = write_bert(tmp_path / "model", config=RANKER)
    export_huggingface(directory, tmp_path / "from-directory")
    gguf = write_bert_gguf(directory, tmp_path / "tiny.gguf", pooling=4)
    found = opened(gguf, tmp_path / "from-file").rank("why is the sky blue", TEXTS).vectors
    expected = load_encoder(tmp_path / "from-directory", threads=1).rank("why is the sky blue", TEXTS).vectors
    np.testing.assert_allclose(found, expected, atol=1e-3)  # two small matrices are halves in the file


def test_a_decoder_with_a_pooling_makes_vectors(tmp_path: Path) -> None:
    extra = {"qwen3.pooling_type": 3, "tokenizer.ggml.add_eos_token": True}
    encoder = opened(write_tiny(tmp_path / "tiny.gguf", "qwen3", extra=extra), tmp_path / "bundle")
    together = encoder.embed(TEXTS).vectors
    assert same_bits(together, np.concatenate([encoder.embed([text]).vectors for text in TEXTS]))
    library = Tokenizer.from_file(str(tmp_path / "bundle/tokenizer.json"))
    plain, whole = (library.encode("sky", add_special_tokens=one).ids for one in (False, True))
    assert len(whole) == len(plain) + 1
    assert encoder.facts.pooling == "last"


@pytest.mark.parametrize("stated", [7, 0])
def test_an_unknown_pooling_is_refused(tmp_path: Path, stated: int) -> None:
    directory = write_bert(tmp_path / "model")
    gguf = write_bert_gguf(directory, tmp_path / "tiny.gguf", pooling=stated)
    with pytest.raises(UnsupportedError, match=f"states the pooling {stated}"):
        export_gguf(gguf, tmp_path / "bundle", backend="edgedec")


def test_words_of_sentencepiece_are_those_of_unigram() -> None:
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "\u2581the", "\u2581cat", "s", "\u2581", "c", "a", "t"]
    metadata = {
        "tokenizer.ggml.model": "t5",
        "tokenizer.ggml.tokens": pieces,
        "tokenizer.ggml.token_type": [3, 3, 3, 2, *[1] * 7],
        "tokenizer.ggml.scores": [0.0, 0.0, 0.0, 0.0, -1.0, -2.0, -3.0, -4.0, -9.0, -9.0, -9.0],
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 3,
    }
    library = Tokenizer.from_str(encoder_tokenizer(metadata))
    assert library.encode("the  cats").ids == [0, 4, 5, 6, 2]
    assert library.encode("the", "cat").ids == [0, 4, 2, 2, 5, 2]
