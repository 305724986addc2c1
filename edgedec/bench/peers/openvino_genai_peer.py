"""OpenVINO GenAI as a side of a comparison. Its pipeline reads the GGUF file itself (llama and qwen2).

It runs with its own defaults, but without prefix caching: the same prompts come again.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import openvino
import openvino_genai


class _Watch(openvino_genai.StreamerBase):  # type: ignore[misc]
    """Records when the first token comes out."""

    def __init__(self) -> None:
        super().__init__()
        self.first: float | None = None

    def write(self, token: Any) -> Any:
        if self.first is None:
            self.first = time.perf_counter()
        return openvino_genai.StreamingStatus.RUNNING

    def end(self) -> None:
        return None


class Peer:
    def open(self, model: str, threads: int, context: int, all_rows: bool = False) -> dict[str, Any]:
        """Load the GGUF file ``model``; its weights stay quantised, and its cache grows on demand."""
        del context, all_rows
        scheduler = openvino_genai.SchedulerConfig()
        scheduler.enable_prefix_caching = False
        scheduler.max_num_batched_tokens = 2**31  # a prompt in one pass, as its own defaults have it
        self._pipeline = openvino_genai.LLMPipeline(
            model, "CPU", scheduler_config=scheduler, INFERENCE_NUM_THREADS=threads
        )
        name = openvino.Core().get_property("CPU", "FULL_DEVICE_NAME")
        return {"version": f"openvino-genai {openvino_genai.__version__}", "isa": str(name)}

    def generate(self, tokens: list[int], max_tokens: int) -> dict[str, Any]:
        """Continue greedily by exactly ``max_tokens`` tokens from an empty cache. Times are in seconds."""
        config = openvino_genai.GenerationConfig()
        config.max_new_tokens = config.min_new_tokens = max_tokens
        config.ignore_eos, config.do_sample = True, False
        prompt = openvino.Tensor(np.array([tokens], dtype=np.int64))
        watch = _Watch()
        started = time.perf_counter()
        out = list(self._pipeline.generate(prompt, config, watch).tokens[0])
        ended = time.perf_counter()
        if len(out) != max_tokens or watch.first is None:
            raise RuntimeError(f"it gave {len(out)} tokens, not {max_tokens}")
        return {"prefill_s": watch.first - started, "decode_s": ended - watch.first, "tokens": out}
