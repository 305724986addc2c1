"""Assistants of Gemma 4 that transformers computes, over the same keys: the same logits and states.

Needs torch and transformers (extra ``bench``): ``python -m pytest -m slow -s tests/reference``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgedec.backends.onnx.assistant_forward import AssistantModel, AssistantSteps
from edgedec.bundle.assistant_facts import AssistantFacts
from edgedec.bundle.drafter_manifest import DrafterManifest
from edgedec.bundle.manifest import Manifest
from edgedec.core.rows import Rows
from edgedec.export.draft_head.target import head_rows, last_norm
from edgedec.export.drafters.install import convert_drafter
from tests.fixtures.assistants import (
    CLUSTERS,
    random_assistant,
    shape_for,
    target_with_rings,
    write_directory,
)
from tests.fixtures.opened import onnx_forward

pytestmark = pytest.mark.slow

TOKENS = 30
STEPS = 4


class Both:
    """An assistant in transformers' hands and in ours, over the cache of one target."""

    def __init__(self, folder: Path, architecture: str, centroids: int) -> None:
        torch = pytest.importorskip("torch")
        transformers = pytest.importorskip("transformers")
        self.bundle = target_with_rings(folder, architecture)
        self.manifest = Manifest.load(self.bundle)
        shape = shape_for(self.manifest.spec, centroids=centroids)
        arrays = random_assistant(shape)
        source = write_directory(folder / "source", shape, arrays)
        convert_drafter(source, self.bundle, folder / "drafter", quant="f32")
        self.shape, self.folder = shape, folder / "drafter"
        _let_all_layers_share(transformers.Gemma4TextConfig)
        config = transformers.Gemma4AssistantConfig(**shape.config())
        self.model: Any = transformers.Gemma4AssistantForCausalLM(config).eval()
        missing, unexpected = self.model.load_state_dict(
            {name: torch.from_numpy(array) for name, array in arrays.items()}, strict=False
        )
        assert not unexpected
        assert set(missing) <= {"lm_head.weight"} | {name for name in missing if "inv_freq" in name}
        self.model.tie_weights()

    def steps(self, forward: Any) -> AssistantSteps:
        facts = AssistantFacts.of(DrafterManifest.load(self.folder).facts)
        return AssistantModel(self.folder, self.bundle, facts, threads=1).steps(forward.lent)

    def theirs(
        self, keys: dict[str, Any], token: int, state: NDArray[np.float32], position: int
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The logits and the next state that transformers computes."""
        import torch

        scale = np.float32(np.sqrt(self.shape.target_hidden))
        embedded = head_rows(self.bundle, np.array([token]))[0] * scale  # the head is tied
        with torch.no_grad():
            found = self.model(
                inputs_embeds=torch.from_numpy(np.concatenate([embedded, state]))[None, None],
                position_ids=torch.tensor([[position]]),
                shared_kv_states=keys,
                attention_mask=None,
            )
        return found.logits[0, 0].numpy(), found.last_hidden_state[0, 0].numpy()


def _let_all_layers_share(config: Any) -> None:
    """Transformers 5.23 refuses a text model all of whose layers share keys, as those of an assistant do."""
    theirs = config.kv_sharing_modes

    def modes(self: Any) -> Any:
        if self.num_kv_shared_layers == self.num_hidden_layers:
            return ["reuse"] * self.num_hidden_layers
        return theirs.fget(self)

    config.kv_sharing_modes = property(modes)


def seen_keys(forward: Any, slots: int, window: int) -> dict[str, Any]:
    """The keys and values that a step sees, as transformers takes them."""
    import torch

    whole = forward.lent["kv_cache"][-1]
    ring = forward.lent["kv_window"][-1]
    places = np.arange(max(slots - window, 0), slots) % ring.shape[2]
    parts = {"full_attention": whole[:, :, :slots], "sliding_attention": ring[:, :, places]}
    return {
        name: tuple(torch.from_numpy(part[i].astype(np.float32))[None] for i in range(2))
        for name, part in parts.items()
    }


@pytest.mark.parametrize("centroids", [0, CLUSTERS], ids=["whole", "centroids"])
@pytest.mark.parametrize("count", [TOKENS, 6], ids=["beyond the window", "within the window"])
@pytest.mark.parametrize("architecture", ["gemma3", "gemma4"])
def test_steps_are_those_of_transformers(
    tmp_path: Path, architecture: str, centroids: int, count: int
) -> None:
    both = Both(tmp_path, architecture, centroids)
    forward = onnx_forward(both.bundle, both.manifest, spin=False, drafting=True)
    last = both.manifest.spec.n_layers - 1
    tokens = np.random.default_rng(0).integers(0, both.shape.vocab, count + 1).tolist()
    tap = forward.extend(tokens[:count], rows=Rows((), taps=(last,))).hidden[-1]
    norm = last_norm(both.bundle)
    state = tap / np.sqrt(np.mean(tap.astype(np.float64) ** 2) + norm.epsilon) * norm.weight
    state, token = state.astype(np.float32), tokens[count]
    keys = seen_keys(forward, count, both.shape.window)
    steps = both.steps(forward)
    ours = steps.step(token, position=count, slots=count, tap=tap)
    for step in range(STEPS):
        logits, following = both.theirs(keys, token, state, count)
        best = np.argsort(-logits, kind="stable")[:5]
        print(f"\nstep {step}: max |difference| of states {np.abs(ours.out[0] - following).max():.2e}")
        np.testing.assert_allclose(ours.out[0], following, atol=2e-4 * np.abs(following).max())
        np.testing.assert_allclose(ours.rows.values[0, :5], logits[best], atol=2e-4 * np.abs(logits).max())
        assert ours.rows.ids[0, 0] == best[0]
        token, state = int(best[0]), following
        ours = steps.step(token, position=count, slots=count, state=ours.out[0])
