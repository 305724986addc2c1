"""Exports a Hugging Face directory of an encoder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgedec.bundle.embedding_facts import EmbeddingFacts, Pooling
from edgedec.bundle.manifest import TOKENIZER, Manifest, Scalar
from edgedec.core.errors import BadFileError, UnsupportedError
from edgedec.core.model_spec import ModelSpec
from edgedec.core.progress import Progress
from edgedec.export.bundle import printable_name
from edgedec.export.encoders.bert import bert_graph
from edgedec.export.encoders.bert_source import TYPES, BertSource, check_heads, our_name, read_sizes
from edgedec.export.encoders.bundle import EncoderContents, write_encoder
from edgedec.export.encoders.decoder_directory import Read, ranks, read_decoder
from edgedec.export.encoders.ends import Dense, Ends
from edgedec.export.encoders.modern import MODERN, READERS, activation_of, modern_name, ranking_ends
from edgedec.export.encoders.sentence import MODULES, SentenceFacts, read_sentence_facts
from edgedec.export.encoders.sizes import BertSizes
from edgedec.export.fields import Fields
from edgedec.export.huggingface.config import builds
from edgedec.export.huggingface.exporter import check_directories, origin_of
from edgedec.export.huggingface.files import read_object, read_text
from edgedec.export.huggingface.groups import parse_quant, show_quant
from edgedec.export.huggingface.shards import read_shards, weight_files
from edgedec.export.huggingface.tokenizer import CONFIG
from edgedec.export.interrupt import terminations_raise
from edgedec.export.tensors import Tensors
from edgedec.export.writer import check_target, table_bytes

DEFAULT_QUANT = "f16,head=f16"
"""Halves: vectors agree with those of float32 in six digits, and eight bits would lose some of that."""
_TERMS = 2
"""Int8 terms of the inputs of linears whose weights are no floats: one loses more than the weights do."""


def encodes(source: Path) -> bool:
    """Return whether a directory is that of an encoder that EdgeDec builds.

    A decoder is one where sentence-transformers has written what comes behind it, or where it ranks.
    """
    config = read_object(source / CONFIG)
    if _bert_type(config):
        return True
    return builds(config) and ((source / MODULES).is_file() or ranks(source))


def export_encoder(
    source: Path, out: Path, quant: str | None, name: str | None, report: Progress
) -> Manifest:
    """Export the directory ``source``. ``quant``: as for other directories; None: ``DEFAULT_QUANT``.

    Raises NotFoundError, BadFileError, UnsupportedError, UsageError or StorageError.
    """
    check_target(out)
    check_directories(source, out)
    formats = parse_quant(quant or DEFAULT_QUANT)
    with terminations_raise():
        sentence, config = read_sentence_facts(source), read_object(source / CONFIG, required=True)
        text = read_text(source / TOKENIZER)
        if text is None:
            raise UnsupportedError(f"{source} has no {TOKENIZER}", hint="let transformers write one")
        read = (
            _bert(source, config, sentence, formats)
            if _bert_type(config)
            else read_decoder(source, config, sentence, formats, text)
        )
        weights, model, spec, facts = read

        def origin() -> dict[str, Scalar]:
            return {**origin_of(source, report), "quant": show_quant(formats)}

        name = name or printable_name(source.resolve().name)
        spec = replace(spec, name=name, table_bytes=table_bytes(model))
        return write_encoder(EncoderContents(model, spec, facts, text, origin), weights, out, report)


def _bert(
    source: Path, config: Mapping[str, Any], sentence: SentenceFacts, formats: Mapping[str, str]
) -> Read:
    """Return weights, graph and facts of a model of the BERT family."""
    reader = READERS.get(str(config["model_type"]))
    sizes = (reader or read_sizes)(config)
    check_heads(sizes)
    stored = read_shards(weight_files(source))
    weights = BertSource(sizes, stored, formats, modern_name if reader else our_name)
    ends, size = _ends(sizes, sentence, weights, config)
    model = bert_graph(sizes, Tensors(weights), ends, size, _TERMS)
    facts = EmbeddingFacts(
        size, ends.pooling, ends.normalised, sizes.token_numbers, bool(sizes.labels),
        sentence.prompts or {}, sentence.default,
    )  # fmt: skip
    return weights, model, bert_spec(sizes, sizes.name, sentence.longest), facts


def _bert_type(config: Mapping[str, Any]) -> bool:
    kind = config.get("model_type")
    return isinstance(kind, str) and (kind in TYPES or kind in READERS)


def _ends(
    sizes: BertSizes, sentence: SentenceFacts, weights: BertSource, config: Mapping[str, Any]
) -> tuple[Ends, int]:
    """Return what comes behind the layers, and the numbers that come out."""
    if sizes.labels:
        if sizes.labels > 1:
            raise UnsupportedError(
                f"the model sorts texts into {sizes.labels} classes: it is no reranker, which has one label"
            )
        if sizes.name == MODERN:
            fields = Fields("config.json", config)
            activation = activation_of(fields.text("classifier_activation", "gelu"), MODERN)
            pooling: Pooling = "mean" if fields.text("classifier_pooling", "cls") == "mean" else "cls"
            return ranking_ends(sizes, pooling, activation, weights.tensors), 1
        dense = [Dense("cls.output", 1, sizes.hidden, activation="sigmoid")]
        if "cls.weight" in weights.tensors:
            dense.insert(0, Dense("cls", sizes.hidden, sizes.hidden, activation="tanh"))
        return Ends("cls", dense, normalised=False), 1
    if sentence.dense:
        raise UnsupportedError("a BERT model with linears behind its pooling is not supported")
    return Ends(sentence.pooling, (), sentence.normalised), sizes.hidden


def bert_spec(sizes: BertSizes, name: str, longest: int) -> ModelSpec:
    """Return the sizes that a manifest states. ``longest``: tokens of the longest text; 0: all positions."""
    if sizes.context < 8:
        raise BadFileError(f"the model has {sizes.context} positions")
    return ModelSpec(
        name=name,
        architecture=sizes.name,
        vocab_size=sizes.vocab,
        n_layers=sizes.layers,
        n_heads=sizes.heads,
        n_kv_heads=sizes.heads,
        head_dim=sizes.head_dim,
        hidden_size=sizes.hidden,
        context_length=min(sizes.context, longest or sizes.context),
        head_k=1,
        ffn_size=sizes.ffn,
    )
