"""transformers on the same GGUF file, with weights dequantised to float32: a reference, and a peer."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

ROWS_BYTES = 64 << 20
"""Most bytes of logits rows computed at a time."""


class Peer:
    def open(
        self, model: str, threads: int, context: int, all_rows: bool = False, exact: bool = False
    ) -> dict[str, Any]:
        """Load the GGUF file ``model`` in float32.

        ``exact``: use attention as it is defined, for a reference, instead of the faster fused one.
        """
        del context, all_rows
        torch.set_num_threads(threads)
        transformers.utils.logging.set_verbosity_error()
        transformers.utils.logging.disable_progress_bar()
        file = Path(model).resolve()
        self._model = transformers.AutoModelForCausalLM.from_pretrained(
            str(file.parent),
            gguf_file=file.name,
            dtype=torch.float32,
            attn_implementation="eager" if exact else "sdpa",
        ).eval()
        if getattr(self._model.config.get_text_config(), "final_logit_softcapping", None):
            raise RuntimeError("models that cap their final logits are not supported")
        isa = f"float32, torch {torch.__version__}"
        return {"version": f"transformers {transformers.__version__}", "isa": isa}

    def generate(self, tokens: list[int], max_tokens: int) -> dict[str, Any]:
        """Continue greedily by exactly ``max_tokens`` tokens from an empty cache. Times are in seconds."""
        with torch.inference_mode():
            started = time.perf_counter()
            step = self._model(torch.tensor([tokens]), use_cache=True, logits_to_keep=1)
            out = [int(step.logits[0, -1].argmax())]
            first = time.perf_counter()
            for _ in range(max_tokens - 1):
                step = self._model(
                    torch.tensor([out[-1:]]), past_key_values=step.past_key_values, use_cache=True
                )
                out.append(int(step.logits[0, -1].argmax()))
        return {"prefill_s": first - started, "decode_s": time.perf_counter() - first, "tokens": out}

    def logits(self, tokens: list[int], path: str) -> dict[str, Any]:
        """Write the logits f32[T, V] after each of ``tokens`` to the .npy file ``path``."""
        head = self._model.get_output_embeddings()
        rows = np.lib.format.open_memmap(
            path, mode="w+", dtype=np.float32, shape=(len(tokens), head.weight.shape[0])
        )
        step = max(1, ROWS_BYTES // (4 * rows.shape[1]))
        with torch.inference_mode():
            hidden = self._model.get_decoder()(torch.tensor([tokens]), use_cache=False).last_hidden_state[0]
            for start in range(0, len(tokens), step):
                rows[start : start + step] = head(hidden[start : start + step]).numpy()
        rows.flush()
        return {"shape": list(rows.shape)}
