"""transformers running the same GGUF file, weights dequantised to float32: the reference, and a peer."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

ROWS_BYTES = 64 << 20
"""Most bytes of logits rows computed at a time."""


LOOKUP_TOKENS = 10


class _Seen:
    """A streamer that notes what it gets, and when."""

    def __init__(self) -> None:
        self.pieces: list[tuple[list[int], float]] = []

    def put(self, value: torch.Tensor) -> None:
        self.pieces.append((value.flatten().tolist(), time.perf_counter()))

    def end(self) -> None:
        """Nothing is held back."""


class Peer:
    def open(
        self, model: str, threads: int, context: int, all_rows: bool = False, exact: bool = False
    ) -> dict[str, Any]:
        """Load the GGUF file ``model`` in float32; the other settings are the model's own.

        ``exact``: with attention as it is written down, for a reference, not the fused one, which is faster.
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
        """Greedy continuation by exactly ``max_tokens`` tokens from an empty cache, and both times in s."""
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

    def reply(self, tokens: list[int], max_tokens: int, stop: list[int], mode: str) -> dict[str, Any]:
        """Greedy continuation from an empty cache until one of ``stop``, plain ("off") or with "lookup".

        That is prompt lookup by ``generate``, which does not say how much it drafted: of its ``rounds`` only
        the tokens that were right are known. Its first pass, over the prompt, may commit several tokens.
        """
        if mode == "off":
            return self._plain(tokens, max_tokens, stop)
        seen = _Seen()
        self._model.generate(
            torch.tensor([tokens]), attention_mask=torch.ones(1, len(tokens), dtype=torch.long),
            max_new_tokens=max_tokens, do_sample=False, eos_token_id=stop or None,
            pad_token_id=0, prompt_lookup_num_tokens=LOOKUP_TOKENS, streamer=seen,
        )  # fmt: skip
        (_, started), (first, at), *rest = seen.pieces  # the first piece is the prompt, at its start
        rounds = [[None, None, len(piece) - 1] for piece, _ in rest]
        out = [*first, *(token for piece, _ in rest for token in piece)]
        took = {"prefill_s": at - started, "decode_s": seen.pieces[-1][1] - at}
        return {**took, "tokens": out, "first": len(first), "rounds": rounds}

    def _plain(self, tokens: list[int], max_tokens: int, stop: list[int]) -> dict[str, Any]:
        with torch.inference_mode():
            started = time.perf_counter()
            step = self._model(torch.tensor([tokens]), use_cache=True, logits_to_keep=1)
            out = [int(step.logits[0, -1].argmax())]
            first = time.perf_counter()
            while len(out) < max_tokens and out[-1] not in stop:
                step = self._model(
                    torch.tensor([out[-1:]]), past_key_values=step.past_key_values, use_cache=True
                )
                out.append(int(step.logits[0, -1].argmax()))
        took = {"prefill_s": first - started, "decode_s": time.perf_counter() - first}
        return {**took, "tokens": out, "rounds": [[0, 0, 0]] * (len(out) - 1)}

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
