"""Drafting heads in llama.cpp, on files that EdgeDec wrote.

    python -m pytest -m slow tests/integration/test_llama_cpp_drafts.py

needs llama-cpp-python of 2026 (architecture eagle3).
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgedec.bundle.exits import taps_of
from edgedec.bundle.manifest import Manifest
from edgedec.export import export_gguf
from edgedec.export.draft_head.bundle import export_head
from edgedec.export.draft_head.weights import Floats, HeadWeights
from edgedec.export.drafters.gguf import write_drafter_gguf
from tests.export.test_draft_head_gguf import WRITTEN
from tests.fixtures.draft_heads import random_head, varied
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.fixtures.tiny_models import CONTEXT
from tests.reference.draft_head import fused, layer, logits

pytestmark = pytest.mark.slow
llama_cpp = pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")

TOKENS = [int(token) for token in np.random.default_rng(7).integers(5, 250, 12)]
SHAPE = TinyShape(layers=6, context=CONTEXT)
ENCODE, DECODE = 0, 1


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GGUF file in float32; its bundle is beside it."""
    folder = tmp_path_factory.mktemp("target")
    path = write_tiny(folder / "target.gguf", shape=SHAPE, formats="f32")
    export_gguf(path, folder / "bundle")
    return path


def staged(name: str, result: Any, *arguments: Any) -> Any:
    """A function of llama-ext.h, which llama-cpp-python does not bind: C++, so by its mangled name."""
    found = getattr(llama_cpp.llama_cpp._lib, name)
    found.restype, found.argtypes = result, list(arguments)
    return found


class Context:
    """A file of llama.cpp and a context, through the C API. ``mtp``: for a layer of further tokens."""

    def __init__(self, path: Path, other: Context | None = None, *, mtp: bool = False) -> None:
        params = llama_cpp.llama_model_default_params()
        params.load_mtp = mtp
        self.model = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
        assert self.model, path
        params = llama_cpp.llama_context_default_params()
        params.n_ctx, params.n_threads, params.n_threads_batch = 256, 1, 1
        params.flash_attn_type = 0
        params.type_k = params.type_v = 0
        params.ctx_type = llama_cpp.LLAMA_CONTEXT_TYPE_MTP if mtp else llama_cpp.LLAMA_CONTEXT_TYPE_DEFAULT
        if other is not None:
            params.ctx_other = other.pointer
        self.pointer = llama_cpp.llama_init_from_model(self.model, params)
        assert self.pointer, path
        self.vocab = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.model))

    def feed(self, kind: int, tokens: list[int] | None, states: Floats | None, first: int = 0) -> None:
        batch = llama_cpp.llama_batch_ext_init(self.pointer)
        count = len(tokens) if tokens is not None else len(states)  # type: ignore[arg-type]
        for index in range(count):
            row = None
            if states is not None:
                data = np.ascontiguousarray(states[index])
                row = llama_cpp.llama_embd(data.ctypes.data_as(ctypes.POINTER(ctypes.c_float)), 1, data.size)
            if tokens is None:
                at = llama_cpp.llama_batch_ext_add_embd(batch, 0, row)
            else:
                at = llama_cpp.llama_batch_ext_add_token(batch, 0, tokens[index])
                if row is not None:
                    assert llama_cpp.llama_batch_ext_set_embd_token(batch, at, row)
            assert at == index
            position = (ctypes.c_int32 * 1)(first + index)
            assert llama_cpp.llama_batch_ext_set_pos(batch, at, position)
            assert llama_cpp.llama_batch_ext_set_output_logits(batch, at, True)
        assert llama_cpp.llama_process(self.pointer, kind, batch) == 0
        llama_cpp.llama_batch_ext_free(batch)

    def show_states(self, *, masked: bool) -> None:
        """Have passes keep what ``states`` returns: of all tokens, or (``masked``) of those with logits."""
        name = "_Z26llama_set_embeddings_nextnP13llama_contextbb"
        staged(name, None, ctypes.c_void_p, ctypes.c_bool, ctypes.c_bool)(self.pointer, True, masked)

    def states(self, count: int, width: int) -> Floats:
        """The states that a drafter reads in its next step: the outputs before or behind the last norm."""
        name = "_Z26llama_get_embeddings_nextnP13llama_context"
        read = staged(name, ctypes.POINTER(ctypes.c_float), ctypes.c_void_p)
        return np.ctypeslib.as_array(read(self.pointer), (count, width)).copy()

    def hidden(self, layer: int, count: int, width: int) -> Floats:
        """The inputs of a layer."""
        name = "_Z30llama_get_embeddings_layer_inpP13llama_contextj"
        read = staged(name, ctypes.POINTER(ctypes.c_float), ctypes.c_void_p, ctypes.c_uint32)
        return np.ctypeslib.as_array(read(self.pointer, layer), (count, width)).copy()

    def logits(self, count: int) -> Floats:
        rows = [llama_cpp.llama_get_logits_ith(self.pointer, row) for row in range(count)]
        return np.stack([np.ctypeslib.as_array(row, (self.vocab,)).copy() for row in rows])


@pytest.fixture(params=["", *WRITTEN])
def head(request: pytest.FixtureRequest, tmp_path: Path, target: Path) -> tuple[HeadWeights, Path]:
    """A head for the target, and its file; of other trainers, too."""
    bundle = target.parent / "bundle"
    manifest = Manifest.load(bundle)
    made = random_head(manifest.spec.hidden_size, manifest.spec.vocab_size, ids=64)
    made = varied(made, manifest.spec.vocab_size, request.param) if request.param else made
    export_head(made, bundle, tmp_path / "head", quant="attn=f32,mlp=f32,head=f32")
    write_drafter_gguf(tmp_path / "head.gguf", tmp_path / "head", manifest, target, name="a head")
    return made, tmp_path / "head.gguf"


def test_llama_cpp_computes_the_logits_of_a_head(target: Path, head: tuple[HeadWeights, Path]) -> None:
    weights, path = head
    d, count = weights.hidden, len(TOKENS)
    context = Context(target)
    watch = staged(
        "_Z30llama_set_embeddings_layer_inpP13llama_contextjb",
        None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_bool,
    )  # fmt: skip
    readers = [tap + 1 for tap in weights.taps or taps_of(SHAPE.layers)]
    for reader in set(readers):
        watch(context.pointer, reader, True)
    context.feed(DECODE, TOKENS, None)
    taps = np.concatenate([context.hidden(reader, count, d) for reader in readers], axis=1)
    drafter = Context(path, context)
    drafter.show_states(masked=True)
    drafter.feed(ENCODE, None, taps[:-1])
    states = drafter.states(count - 1, d)
    assert np.allclose(states, fused(weights, taps[:-1]), atol=1e-3)
    drafter.feed(DECODE, TOKENS[1:], states)
    found, outputs = drafter.logits(count - 1), drafter.states(count - 1, d)
    table = embedding(target) if weights.embedding is None else weights.embedding.read(0, context.vocab)
    embedded = table[TOKENS[1:]]
    places = np.arange(count - 1, dtype=np.int64)
    expected = layer(weights, states, embedded, places, np.tril(np.ones((count - 1,) * 2, dtype=np.bool_)))
    assert np.allclose(outputs, expected, atol=1e-2)
    assert weights.head is not None
    assert np.allclose(found[:, weights.keep], logits(weights, expected, weights.head), atol=2e-2)
    others = np.setdiff1d(np.arange(found.shape[1]), weights.keep)
    assert np.isneginf(found[:, others]).all()


def embedding(path: Path) -> Floats:
    from edgedec.training.small_source import SmallSource

    table = SmallSource(path).embedding
    return table.gather(np.arange(table.rows))
