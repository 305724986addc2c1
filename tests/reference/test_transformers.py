"""Models that transformers makes and saves, exported and run here: the same logits, the same greedy tokens.

Needs torch and transformers (extra ``bench``): ``python -m pytest -m slow -s tests/reference``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from gguf import GGMLQuantizationType, quants
from numpy.typing import NDArray

from edgedec.export import export_huggingface
from edgedec.export.tokenizer import build_tokenizer
from tests.fixtures.tiny_tokenizers import bpe_metadata
from tests.reference.graph import Routed, graph_logits, graph_routed
from tests.reference.routing import kernels_routed

pytestmark = pytest.mark.slow

PROMPT = [3, 9, 270, 41, 5, 5, 100, 17, 260, 33, 8, 64]
NEW = 36
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
LONG = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "short_factor": np.linspace(1, 2, 16).tolist(),
    "long_factor": np.linspace(1, 9, 16).tolist(),
    "original_max_position_embeddings": 64,
}
SIZES = {
    "vocab_size": 320,
    "hidden_size": 128,
    "intermediate_size": 192,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "bos_token_id": 1,
    "eos_token_id": None,
    "pad_token_id": 0,
}
DELTA = {
    "head_dim": 32,
    "layer_types": None,
    "full_attention_interval": 2,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 32,  # whole blocks of q8_0, whose order in a row changes
}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 1e4,
    "factor": 4.0,
    "original_max_position_embeddings": 64,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "llama_4_scaling_beta": 0.1,
}
EXPERTS = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64}
EYE = {"hidden_size": 32, "intermediate_size": 32, "patch_size": 4, "out_hidden_size": 128}
"""Sizes of a part that sees, which is left out."""
GEMMA4_OWN = ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"]
GEMMA4_EQUAL = {
    "num_hidden_layers": 4,
    "head_dim": 32,
    "global_head_dim": 64,
    "sliding_window": 8,
    "attention_k_eq_v": True,
    "num_global_key_value_heads": 1,
    "hidden_size_per_layer_input": 0,
    "layer_types": [*GEMMA4_OWN[:3], "full_attention"],
}
"""Keys are values too."""
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {"tie_word_embeddings": True}),
    "llama-3.1": ("llama", {"rope_parameters": LLAMA3}),
    "llama-linear": ("llama", {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e4}}),
    "qwen2": ("qwen2", {}),
    "qwen3": ("qwen3", {"head_dim": 48}),
    "qwen3-vl": (
        "qwen3_vl",
        {
            "text_config": {**SIZES, "head_dim": 48, "rope_parameters": None},
            "vision_config": {**EYE, "num_heads": 2, "depth": 2, "deepstack_visual_indexes": [0]},
        },
    ),
    "ministral3": ("ministral3", {"head_dim": 32, "rope_parameters": YARN}),
    "ministral3-plain-mscale": (
        "ministral3",
        {"head_dim": 32, "tie_word_embeddings": True, "rope_parameters": {**YARN, "mscale_all_dim": 0.0}},
    ),
    "ministral3-that-sees": (
        "mistral3",
        {
            "text_config": {**SIZES, "model_type": "ministral3", "head_dim": 32, "rope_parameters": YARN},
            "vision_config": {**EYE, "model_type": "pixtral", "num_attention_heads": 2},
            "tie_word_embeddings": False,
        },
    ),
    "phi3": ("phi3", {}),
    "phi3-window": ("phi3", {"sliding_window": 9}),
    "phi3-long-rope": ("phi3", {"original_max_position_embeddings": 64, "rope_parameters": LONG}),
    "gemma2-default-caps": ("gemma2", {"head_dim": 32, "sliding_window": 8, "query_pre_attn_scalar": 32}),
    "gemma2": (
        "gemma2",
        {
            "head_dim": 32,
            "sliding_window": 8,
            "query_pre_attn_scalar": 40,
            "attn_logit_softcapping": 2.0,
            "final_logit_softcapping": 3.0,
        },
    ),
    "gemma4": (
        "gemma4_text",
        {
            "hidden_size": 96,
            "intermediate_size": 160,
            "num_hidden_layers": 8,
            "head_dim": 32,
            "global_head_dim": 64,
            "sliding_window": 8,
            "num_kv_shared_layers": 4,
            "use_double_wide_mlp": True,
            "hidden_size_per_layer_input": 32,
            "vocab_size_per_layer_input": 320,
            "final_logit_softcapping": 3.0,
            "layer_types": [*GEMMA4_OWN, *GEMMA4_OWN[1:3], *GEMMA4_OWN[1:3]],
        },
    ),
    "gemma4-keys-are-values": ("gemma4_text", GEMMA4_EQUAL),
    "gemma4-experts": (
        "gemma4_text",
        {
            **GEMMA4_EQUAL,
            "enable_moe_block": True,
            "num_experts": 8,
            "top_k_experts": 3,
            "moe_intermediate_size": 64,
        },
    ),
    "gemma3": (
        "gemma3_text",
        {"head_dim": 32, "sliding_window": 8, "num_hidden_layers": 7, "query_pre_attn_scalar": 40},
    ),
    "qwen3.5": ("qwen3_5_text", DELTA),
    "qwen3.5-equal-heads": (
        "qwen3_5_text",
        {
            **DELTA,
            "tie_word_embeddings": True,
            "linear_num_value_heads": 2,
            "linear_conv_kernel_dim": 3,
            "layer_types": ["linear_attention", "full_attention", "linear_attention"],
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "partial_rotary_factor": 0.5},
        },
    ),
    "qwen3.5-three-values-a-key": ("qwen3_5_text", {**DELTA, "linear_num_value_heads": 6}),
    "qwen3moe": ("qwen3_moe", {**EXPERTS, "head_dim": 48, "norm_topk_prob": True}),
    "qwen3moe-weights-as-they-are": (
        "qwen3_moe",
        {
            **EXPERTS,
            "num_experts_per_tok": 3,
            "head_dim": 48,
            "norm_topk_prob": False,
            "mlp_only_layers": [0],
        },
    ),
    "lfm2moe": (
        "lfm2_moe",
        {
            **EXPERTS,
            "num_dense_layers": 1,
            "layer_types": ["conv", "full_attention", "conv"],
            "routed_scaling_factor": 1.5,
        },
    ),
    "lfm2moe-without-a-bias": (
        "lfm2_moe",
        {
            **EXPERTS,
            "num_dense_layers": 0,
            "layer_types": ["conv", "full_attention", "conv"],
            "use_expert_bias": False,
            "norm_topk_prob": False,
        },
    ),
    "granitemoe": (
        "granitemoe",
        {
            "num_local_experts": 8,
            "num_experts_per_tok": 2,
            "attention_multiplier": 0.11,
            "embedding_multiplier": 6.0,
            "residual_multiplier": 0.4,
            "logits_scaling": 0.5,
        },
    ),
    "qwen3.5moe": (
        "qwen3_5_moe_text",
        {**DELTA, **EXPERTS, "shared_expert_intermediate_size": 96},
    ),
    "gpt-oss": (
        "gpt_oss",
        {
            "num_local_experts": 8,
            "num_experts_per_tok": 2,
            "num_hidden_layers": 4,
            "head_dim": 32,
            "sliding_window": 8,
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 1e4,
                "factor": 4.0,
                "beta_fast": 8.0,
                "beta_slow": 1.0,
                "truncate": False,
                "original_max_position_embeddings": 64,
            },
        },
    ),
    "lfm2": ("lfm2", {"full_attn_idxs": [1, 3], "num_hidden_layers": 4}),
    "lfm2-wide": (
        "lfm2",
        {
            "layer_types": ["conv", "conv", "full_attention"],
            "tie_word_embeddings": False,
            "conv_L_cache": 4,
            "block_auto_adjust_ff_dim": False,
        },
    ),
}


class Made(NamedTuple):
    """A model in transformers' hands and the bundle made of what it saved."""

    model: Any
    bundle: Path

    def greedy(self) -> tuple[list[int], NDArray[np.float32]]:
        """Prompt and reply as transformers generates it, and the logits f32[NEW, V] of the reply's tokens."""
        import torch

        prompt = torch.tensor([PROMPT])
        options = {"max_new_tokens": NEW, "do_sample": False, "eos_token_id": None}
        with torch.no_grad():
            whole = self.model.generate(prompt, **options)
            logits: NDArray[np.float32] = self.model(whole[:, :-1]).logits[0].float().numpy()
        return whole[0].tolist(), logits[len(PROMPT) - 1 :]


@pytest.fixture(scope="module", params=MODELS)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    kind, options = MODELS[request.param]
    sees = "vision_config" in options
    config = transformers.AutoConfig.for_model(kind, **(options if sees else {**SIZES, **options}))
    torch.manual_seed(0)
    maker = transformers.AutoModelForImageTextToText if sees else transformers.AutoModelForCausalLM
    model = maker.from_config(config, attn_implementation="eager").eval()
    _fill(model)
    folder = tmp_path_factory.mktemp(request.param)
    model.save_pretrained(folder / "source", max_shard_size="200KB")
    assert len(list((folder / "source").glob("*.safetensors"))) > 1
    (folder / "source" / "tokenizer.json").write_text(build_tokenizer(bpe_metadata())[0])
    export_huggingface(folder / "source", folder / "bundle")
    return Made(model, folder / "bundle")


def _fill(model: Any) -> None:
    """Weights with some spread, and such that q8_0 can represent: what is compared is the arithmetic."""
    import torch

    rng = np.random.default_rng(1)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            values = rng.normal(0, weight.shape[-1] ** -0.5, tuple(weight.shape)).astype(np.float32)
            if values.ndim == 2 or ".experts." in name:
                kind = GGMLQuantizationType.Q8_0
                sideways = "gpt_oss" in model.config.model_type and values.ndim == 3
                values = np.ascontiguousarray(values.swapaxes(1, 2)) if sideways else values
                values = quants.dequantize(quants.quantize(values, kind), kind).reshape(values.shape)
                values = values.swapaxes(1, 2).copy() if sideways else values
            elif name.endswith("A_log"):
                values -= 3  # a long memory: of one token the sign of q.k decides, and rounding may turn it
            else:
                values += weight.numpy()
            weight.copy_(torch.from_numpy(values))
        for name, weight in model.named_buffers():
            if name.endswith("expert_bias"):
                weight.copy_(torch.from_numpy(rng.normal(0, 0.3, weight.shape[0]).astype(np.float32)))
        for name, weight in model.named_parameters():
            if "gemma4" in model.config.model_type and name.endswith(("q_norm.weight", "k_norm.weight")):
                weight.mul_(weight.shape[0] ** -0.25)  # they take the place of a factor on scores


def test_the_graph_computes_the_same_logits(made: Made) -> None:
    """In floats throughout, so that nothing but the order of sums differs: greedy tokens are the same too."""
    whole, expected = made.greedy()
    got = graph_logits(made.bundle, whole[:-1])[len(PROMPT) - 1 :]
    print(f"\ngraph: max |difference| {np.abs(got - expected).max():.2e}, logits of {expected.std():.2f}")
    assert expected.std() > 0.3
    np.testing.assert_allclose(got, expected, atol=1e-4 * np.abs(expected).max())
    assert got.argmax(axis=1).tolist() == whole[len(PROMPT) :]


def test_greedy_tokens(made: Made) -> None:
    """Through the kernels, which round activations: another token only where two are nearly equal.

    Rounding may choose another expert too, and what follows is another reply. So the floats of the graph are
    run again under the kernels' choices, and are what the kernels are compared with.
    """
    whole, expected = made.greedy()
    ran = kernels_routed(made.bundle, whole[:-1])
    floats = graph_routed(made.bundle, whole[:-1], ran.chosen)
    got, under = (run.logits[len(PROMPT) - 1 :] for run in (ran, floats))
    error = np.abs(got - under).max()
    top = np.sort(under, axis=1)
    clear = top[:, -1] - top[:, -2] > 2 * error
    same = got.argmax(axis=1) == under.argmax(axis=1)
    agree = choices_agree(ran, floats)[len(PROMPT) - 1 :]
    print(f"\nkernels: max |difference| {error:.3f}, logits of {expected.std():.2f}, {same.sum()} of {NEW} "
          f"greedy tokens the same, {clear.sum()} clear, {agree.sum()} behind equal choices")  # fmt: skip
    assert error < 0.15 * expected.std()
    assert same[clear].all()
    assert same.mean() > 0.85
    for name, found in floats.scores.items():
        assert np.abs(ran.scores[name] - found).max() < 0.15 * found.std(), name
    replied = np.array(whole[len(PROMPT) :])
    np.testing.assert_allclose(under[agree], expected[agree], atol=1e-4 * np.abs(expected).max())
    assert (got.argmax(axis=1) == replied)[agree & clear].all()


def choices_agree(one: Routed, other: Routed) -> NDArray[np.bool_]:
    """Which tokens come before the first one that takes other experts in the other run, in any layer."""
    differ = np.zeros(len(one.logits), bool)
    for name, chosen in one.chosen.items():
        differ |= (np.sort(chosen, axis=1) != np.sort(other.chosen[name], axis=1)).any(axis=1)
    return ~np.logical_or.accumulate(differ)
