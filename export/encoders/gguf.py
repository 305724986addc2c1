"""Exports a GGUF file of an encoder: of the BERT family, or of a decoder whose file states a pooling.

Files of ModernBERT do not state the pooling of a reranker; its converter means that of all tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from edgedec.bundle.embedding_facts import EmbeddingFacts, Pooling
from edgedec.bundle.manifest import Manifest
from edgedec.core.errors import UnsupportedError
from edgedec.export.architectures import ARCHITECTURES, GEMMA_EMBEDDING, Architecture
from edgedec.export.encoders.bert import bert_graph
from edgedec.export.encoders.bert_source import check_heads
from edgedec.export.encoders.bundle import EncoderContents, write_encoder
from edgedec.export.encoders.decoder import TextDecoder
from edgedec.export.encoders.decoder_directory import RANKING
from edgedec.export.encoders.directory import bert_spec
from edgedec.export.encoders.ends import DIFFERENCE, Dense, Ends
from edgedec.export.encoders.gguf_tokenizer import encoder_tokenizer
from edgedec.export.encoders.modern import activation_of, ranking_ends
from edgedec.export.encoders.sizes import BERT, FAMILY, MODERN_BERT, NOMIC_BERT, BertSizes, Rotations
from edgedec.export.fields import MOST_LAYERS
from edgedec.export.hyperparameters import read_hyperparameters
from edgedec.export.metadata_keys import MetadataKeys
from edgedec.export.tensors import Tensors
from edgedec.export.writer import table_bytes

if TYPE_CHECKING:
    from pathlib import Path

    from edgedec.core.model_spec import ModelSpec
    from edgedec.core.progress import Progress
    from edgedec.export.bundle import About
    from edgedec.export.gguf_source import GgufSource
    from edgedec.export.model import ExportModel

_POOLING: dict[int, Pooling] = {1: "mean", 2: "cls", 3: "last"}
"""Numbers of poolings in GGUF files."""
_RANK = 4
_TERMS = 2
_LABELS = ("no", "yes")


def encodes_gguf(metadata: Mapping[str, Any]) -> bool:
    """Return whether a GGUF file is that of an encoder."""
    name = metadata.get("general.architecture")
    return name in (*FAMILY, GEMMA_EMBEDDING.name) or bool(metadata.get(f"{name}.pooling_type"))


def export_gguf_encoder(gguf: GgufSource, out: Path, about: About, report: Progress) -> Manifest:
    """Write the bundle of an encoder. Raises BadFileError, UnsupportedError or StorageError."""
    name = str(gguf.metadata["general.architecture"])
    if name in FAMILY:
        model, spec, facts = _bert(gguf, name)
    else:
        model, spec, facts = _decoder(gguf, name)
    spec = replace(spec, name=about.name, table_bytes=table_bytes(model))
    text = encoder_tokenizer(gguf.metadata)
    return write_encoder(EncoderContents(model, spec, facts, text, about.origin), gguf, out, report)


def _bert(gguf: GgufSource, name: str) -> tuple[ExportModel, ModelSpec, EmbeddingFacts]:
    keys, tensors = MetadataKeys(name, gguf.metadata), Tensors(gguf)
    # Files of older converters have a classifier and state no pooling.
    ranks = keys.get("pooling_type") == _RANK or "cls.output.weight" in gguf.tensors
    sizes = _sizes(keys, gguf, tensors, int(ranks))
    check_heads(sizes)
    if ranks and name == MODERN_BERT:
        ends, size = ranking_ends(sizes, "mean", "gelu", gguf.tensors), 1
    elif ranks:
        dense = [Dense("cls.output", 1, sizes.hidden, activation="sigmoid")]
        if "cls.weight" in gguf.tensors:
            dense.insert(0, Dense("cls", sizes.hidden, sizes.hidden, activation="tanh"))
        ends, size = Ends("cls", dense, normalised=False), 1
    else:
        ends, size = Ends(_pooling(keys)), sizes.hidden
    model = bert_graph(sizes, tensors, ends, size, _TERMS)
    facts = EmbeddingFacts(size, ends.pooling, ends.normalised, sizes.token_numbers, ranks)
    return model, bert_spec(sizes, name, keys.size("context_length", sizes.positions)), facts


def _sizes(keys: MetadataKeys, gguf: GgufSource, tensors: Tensors, labels: int) -> BertSizes:
    types, name = gguf.tensors.get("token_types.weight"), keys.architecture
    layers = keys.size("block_count", most=MOST_LAYERS)
    turned = name != BERT
    positions = keys.size("context_length") if turned else tensors.rows_of("position_embd.weight")
    usual = {BERT: "gelu", MODERN_BERT: "gelu", NOMIC_BERT: "silu"}
    return BertSizes(
        name=name,
        vocab=tensors.rows_of("token_embd.weight"),
        layers=layers,
        hidden=keys.size("embedding_length"),
        heads=keys.size("attention.head_count"),
        ffn=keys.size("feed_forward_length"),
        positions=positions,
        epsilon=keys.number("attention.layer_norm_epsilon"),
        activation=activation_of(keys.text("hidden_activation", usual[name]), name),
        types=types.shape[0] if types and len(types.shape) == 2 else 1,
        labels=labels,
        rotations=_rotations(keys, layers, name == MODERN_BERT) if turned else None,
        gated=turned,
        norms_first=name == MODERN_BERT,
    )


def _rotations(keys: MetadataKeys, layers: int, windows: bool) -> Rotations:
    """Return the bases of rotations, and which layers have a window: a period, or a flag for each layer."""
    if (scaling := keys.text("rope.scaling.type", "none")) != "none":
        raise UnsupportedError(f"frequencies of the form {scaling[:40]!r} are not supported in an encoder")
    base = keys.positive("rope.freq_base")
    if not windows or not keys.get("attention.sliding_window"):
        return Rotations(base)
    window = keys.size("attention.sliding_window") // 2
    pattern = keys.get("attention.sliding_window_pattern")
    if isinstance(pattern, list) and len(pattern) == layers:
        local = tuple(map(bool, pattern))
    else:
        period = keys.size("attention.sliding_window_pattern", 3)
        local = tuple(layer % period > 0 for layer in range(layers))
    return Rotations(base, keys.positive("rope.freq_base_swa", 10_000.0), window, local)


def _decoder(gguf: GgufSource, name: str) -> tuple[ExportModel, ModelSpec, EmbeddingFacts]:
    architecture = GEMMA_EMBEDDING if name == GEMMA_EMBEDDING.name else _known(name)
    metadata = {key: value for key, value in gguf.metadata.items() if key != f"{name}.attention.causal"}
    hyper, keys = read_hyperparameters(architecture, metadata), MetadataKeys(name, metadata)
    tensors, pair = Tensors(gguf), tuple[str, ...]()
    both_ways = architecture is GEMMA_EMBEDDING or gguf.metadata.get(f"{name}.attention.causal") is False
    vocab, size = tensors.rows_of("token_embd.weight"), hyper.hidden
    if keys.get("pooling_type") == _RANK:
        order = _labels(keys)
        dense = [Dense("answers", 2, hyper.hidden, bias=False, activation=DIFFERENCE, order=order,
                       tensor="cls.output.weight", height=2)]  # fmt: skip
        ends, size, pair = Ends("last", dense, normalised=False), 1, RANKING
    else:
        linears = [one for one in ("dense_2", "dense_3") if f"{one}.weight" in gguf.tensors]
        dense = [_linear(gguf, one) for one in linears]
        ends = Ends(_pooling(keys), dense)
        size = dense[-1].rows if dense else size
    decoder = TextDecoder(hyper, both_ways, ends, size)
    facts = EmbeddingFacts(size, ends.pooling, ends.normalised, decoder.token_numbers, bool(pair), pair=pair)
    return decoder.graph(tensors), decoder.spec(name, vocab, 0), facts


def _linear(gguf: GgufSource, name: str) -> Dense:
    """Return a linear behind the pooling, whose size its tensor states."""
    rows, cols = [*gguf.tensors[f"{name}.weight"].shape, 0][:2]
    return Dense(name, rows, cols, bias=False)


def _known(name: str) -> Architecture:
    if name not in ARCHITECTURES:
        raise UnsupportedError(f"architecture {name[:40]!r} is not supported")
    return ARCHITECTURES[name]


def _pooling(keys: MetadataKeys) -> Pooling:
    stated = keys.get("pooling_type")
    if stated is None:
        raise UnsupportedError(
            "the file states no pooling: it was trained to fill gaps, or its maker left that out",
            hint="use another GGUF file, or a directory of the model with modules.json",
        )
    if stated not in _POOLING:
        raise UnsupportedError(f"the file states the pooling {str(stated)[:20]}, which is not supported")
    return _POOLING[stated]


def _labels(keys: MetadataKeys) -> tuple[int, ...]:
    """Return the rows of the classifier that mean no and yes."""
    labels = keys.get("classifier.output_labels")
    if not isinstance(labels, list) or sorted(map(str, labels)) != sorted(_LABELS):
        raise UnsupportedError("the reranker has other labels than yes and no")
    return tuple(labels.index(one) for one in _LABELS)
