"""MTP layers and assistants in llama.cpp, on files that EdgeDec wrote.

    python -m pytest -m slow tests/integration/test_llama_cpp_makers.py

needs llama-cpp-python of 2026 (context type MTP, architecture gemma4-assistant).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgedec.backends.onnx.assistant_forward import AssistantModel
from edgedec.bundle.assistant_facts import AssistantFacts
from edgedec.bundle.drafter_manifest import MTP, DrafterManifest
from edgedec.bundle.manifest import Manifest
from edgedec.core.rows import Rows
from edgedec.export import export_gguf
from edgedec.export.architectures import ARCHITECTURES
from edgedec.export.drafters.gguf import write_drafter_gguf
from edgedec.export.drafters.install import convert_drafter
from edgedec.export.gguf_source import open_gguf
from edgedec.export.hyperparameters import read_hyperparameters
from tests.fixtures.assistants import CLUSTERS, random_assistant, shape_for, write_directory
from tests.fixtures.mtp_layers import without_layer
from tests.fixtures.opened import onnx_forward
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.fixtures.tiny_hybrid import DeltaShape
from tests.integration.test_llama_cpp_drafts import DECODE, TOKENS, Context, llama_cpp
from tests.reference.mtp import MtpReference

pytestmark = pytest.mark.slow
if not hasattr(llama_cpp, "LLAMA_CONTEXT_TYPE_MTP"):
    pytest.skip("llama-cpp-python has no layers for further tokens", allow_module_level=True)

COUNT = len(TOKENS)
MODEL = "qwen35"
SHAPE = TinyShape(layers=4, context=512, delta=DeltaShape(k_dim=32, nextn=1))
"""llama.cpp wants heads of keys and of values of one size."""


@pytest.mark.parametrize("apart", [True, False], ids=["a model without the layer", "a model that has it"])
def test_llama_cpp_computes_the_logits_of_an_mtp_layer(tmp_path: Path, apart: bool) -> None:
    source = write_tiny(tmp_path / "whole.gguf", MODEL, shape=SHAPE, formats="f32")
    export_gguf(source, tmp_path / "bundle")
    drafter = tmp_path / "bundle" / "drafters" / MTP
    target = without_layer(source, tmp_path / "plain.gguf") if apart else source
    path, manifest = tmp_path / "mtp-tiny.gguf", Manifest.load(tmp_path / "bundle")
    write_drafter_gguf(path, drafter, manifest, target, name="its layer")
    model = Context(target)
    layer = Context(path, model, mtp=True)
    for one in (model, layer):
        one.show_states(masked=False)
    model.feed(DECODE, TOKENS, None)
    states = model.states(COUNT, SHAPE.hidden)[:-1]
    layer.feed(DECODE, TOKENS[1:], states)
    with open_gguf(source) as gguf:
        hyper = read_hyperparameters(ARCHITECTURES[MODEL], gguf.metadata)
        arrays = {name: gguf.vector(one).reshape(one.shape) for name, one in gguf.tensors.items()}
    table = arrays["token_embd.weight"]
    expected = MtpReference(hyper, arrays, hyper.layers).outputs(states, table[TOKENS[1:]])
    assert np.allclose(layer.states(COUNT - 1, SHAPE.hidden), expected, atol=1e-4)
    assert np.allclose(layer.logits(COUNT - 1), expected @ table.T, atol=1e-4)


class Assisted:
    """A target, an assistant for it, and the file that EdgeDec wrote of the latter."""

    def __init__(self, folder: Path, centroids: int) -> None:
        shape = TinyShape(layers=3, context=512, window=64)  # no shared keys, and a window that holds all
        self.source = write_tiny(folder / "target.gguf", "gemma4", shape=shape, formats="f32")
        self.bundle, self.folder, self.path = folder / "bundle", folder / "drafter", folder / "assistant.gguf"
        export_gguf(self.source, self.bundle)
        self.manifest = Manifest.load(self.bundle)
        shape_of = shape_for(self.manifest.spec, centroids=centroids, hidden=32)
        self.arrays = random_assistant(shape_of)
        write_directory(folder / "source", shape_of, self.arrays)
        convert_drafter(folder / "source", self.bundle, self.folder, quant="f32")
        write_drafter_gguf(self.path, self.folder, self.manifest, self.source, name="its assistant")


@pytest.mark.parametrize("centroids", [0, CLUSTERS], ids=["whole", "centroids"])
def test_llama_cpp_computes_the_logits_of_an_assistant(tmp_path: Path, centroids: int) -> None:
    """Both attend over half-precision or float keys of their own, so they differ by that rounding."""
    made = Assisted(tmp_path, centroids)
    model, width = Context(made.source), made.manifest.spec.hidden_size
    assistant = Context(made.path, model, mtp=True)  # it empties the cache that it shares
    for one in (model, assistant):
        one.show_states(masked=False)
    model.feed(DECODE, TOKENS, None)
    forward = onnx_forward(made.bundle, made.manifest, spin=False, drafting=True)
    last = made.manifest.spec.n_layers - 1
    tap = forward.extend(TOKENS, rows=Rows((), taps=(last,))).hidden[-1]
    facts = AssistantFacts.of(DrafterManifest.load(made.folder).facts)
    steps = AssistantModel(made.folder, made.bundle, facts, threads=1).steps(forward.lent)
    ours = steps.step(77, position=COUNT, slots=COUNT, tap=tap)
    assistant.feed(DECODE, [77], model.states(COUNT, width)[-1:], first=COUNT)
    logits = assistant.logits(1)[0]
    assert np.abs(logits[ours.rows.ids[0]] - ours.rows.values[0]).max() < 0.02
    assert np.abs(assistant.states(1, width)[0] - ours.out).max() < 0.02
    if not centroids:
        assert np.argmax(logits) == ours.rows.ids[0, 0]
