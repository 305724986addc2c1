"""Cross-encoders: scores of pairs against NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from edgedec.core.errors import UnsupportedError, UsageError
from edgedec.embed.encoder import load_encoder
from edgedec.export import export_huggingface
from tests.fixtures.tiny_bert import CONFIG, write_bert
from tests.kernels.float_rows import same_bits
from tests.reference.bert import hidden_states

DOCUMENTS = ["the cat sat on the mat .", "a dog", "blue sky . " * 20, ""]
ONE_LABEL = {"id2label": {"0": "LABEL_0"}}
BERT = {**CONFIG, "architectures": ["BertForSequenceClassification"], **ONE_LABEL}
ROBERTA = {**CONFIG, "architectures": ["XLMRobertaForSequenceClassification"], "model_type": "xlm-roberta",
           "type_vocab_size": 1, "pad_token_id": 1, **ONE_LABEL}  # fmt: skip


@pytest.mark.parametrize("config", [BERT, ROBERTA], ids=["bert", "xlm-roberta"])
def test_scores_are_those_of_the_definition(tmp_path: Path, config: dict[str, Any]) -> None:
    directory = write_bert(tmp_path / "model", config=config)
    (directory / "modules.json").unlink()
    export_huggingface(directory, tmp_path / "bundle", name="tiny-ranker")
    encoder = load_encoder(tmp_path / "bundle")
    found = encoder.rank("why is the sky blue", DOCUMENTS)
    tensors = load_file(directory / "model.safetensors")
    library = Tokenizer.from_file(str(directory / "tokenizer.json"))
    library.enable_truncation(encoder.context)
    names = ("bert.pooler.dense", "classifier")
    if "roberta" in config["model_type"]:
        names = ("classifier.dense", "classifier.out_proj")
    expected = []
    for one in (library.encode("why is the sky blue", document) for document in DOCUMENTS):
        types = one.type_ids if config["type_vocab_size"] > 1 else [0] * len(one.ids)
        x = hidden_states(tensors, config, one.ids, types)[0]
        x = np.tanh(tensors[f"{names[0]}.weight"] @ x + tensors[f"{names[0]}.bias"])
        x = tensors[f"{names[1]}.weight"] @ x + tensors[f"{names[1]}.bias"]
        expected.append(1 / (1 + np.exp(-x)))
    np.testing.assert_allclose(found.vectors, expected, atol=1e-3)  # keys and values are halves
    assert found.cut == 1
    alone = [encoder.rank("why is the sky blue", [document]).vectors for document in DOCUMENTS]
    assert same_bits(found.vectors, np.concatenate(alone))
    with pytest.raises(UsageError, match="is a reranker"):
        encoder.embed(["the cat"])


def test_a_classifier_of_several_classes_is_no_reranker(tmp_path: Path) -> None:
    labels = {"id2label": {"0": "good", "1": "bad"}}
    directory = write_bert(tmp_path / "model", config={**BERT, **labels})
    with pytest.raises(UnsupportedError, match="2 classes: it is no reranker"):
        export_huggingface(directory, tmp_path / "bundle")
