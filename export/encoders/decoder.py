"""Decoders whose hidden states become vectors or scores of whole texts: Qwen3 and Gemma 3, among others."""

from __future__ import annotations

from edgedec.core.errors import UnsupportedError
from edgedec.core.model_spec import ModelSpec
from edgedec.core.quick_dataclass import dataclass
from edgedec.export.encoders.ends import Ends, encoder_inputs, encoder_outputs, finish
from edgedec.export.encoders.sizes import token_numbers
from edgedec.export.graph import DecoderBuilder
from edgedec.export.hyperparameters import Hyperparameters
from edgedec.export.model import ExportModel
from edgedec.export.passes.fuse_gated_mlp import FuseGatedMlp
from edgedec.export.passes.fuse_qkv import FuseQkv
from edgedec.export.passes.fuse_residual import FuseResidual
from edgedec.export.passes.infra import run_passes
from edgedec.export.tensors import Tensors


@dataclass(frozen=True, slots=True)
class TextDecoder:
    """A decoder over whole texts, and what comes behind its last norm."""

    hyper: Hyperparameters
    both_ways: bool
    ends: Ends
    size: int
    """Numbers of a vector."""

    def graph(self, tensors: Tensors) -> ExportModel:
        """Build and fuse the graph. Raises BadFileError or UnsupportedError."""
        _check(self.hyper)
        model = ExportModel(encoder_inputs(types=False), encoder_outputs(self.size))
        builder = DecoderBuilder(self.hyper, tensors, model)
        finish(builder, builder.whole_texts(self.both_ways), self.hyper.hidden, self.ends)
        tensors.leave(["output.weight"])
        tensors.require_all_taken()
        run_passes(model, [FuseQkv(), FuseGatedMlp(), FuseResidual()])
        return model

    @property
    def token_numbers(self) -> int:
        """See ``EmbeddingFacts``."""
        hyper = self.hyper
        queries, keys = hyper.heads * hyper.head_dim, hyper.kv_heads * hyper.head_dim
        return token_numbers(hyper.hidden, hyper.ffn, queries, keys)

    def spec(self, name: str, vocab: int, longest: int) -> ModelSpec:
        """Return the sizes that a manifest states; ``longest``: tokens of the longest text, 0: all."""
        hyper = self.hyper
        return ModelSpec(
            name=name,
            architecture=hyper.architecture.name,
            vocab_size=vocab,
            n_layers=hyper.layers,
            n_heads=hyper.heads,
            n_kv_heads=hyper.kv_heads,
            head_dim=hyper.head_dim,
            hidden_size=hyper.hidden,
            context_length=min(hyper.context, longest or hyper.context),
            head_k=1,
            ffn_size=hyper.ffn,
        )


def _check(hyper: Hyperparameters) -> None:
    """Raise UnsupportedError for a decoder that does not run over whole texts."""
    arch = hyper.architecture
    lacks = {
        "recurrent layers": hyper.recurrent is not None,
        "experts": hyper.experts is not None,
        "layers of different sizes": hyper.by_layer is not None,
        "attention sinks": arch.sinks,
        "gated attention": arch.gated_attention,
        "norms of values": arch.value_norm,
    }
    if found := [name for name, there in lacks.items() if there]:
        raise UnsupportedError(f"{arch.name} models with {found[0]} make no vectors here")
