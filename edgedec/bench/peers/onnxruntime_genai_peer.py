"""ONNX Runtime GenAI as a side of a comparison.

It does not read quantised GGUF files, so its own model builder makes a model of the dequantised weights. The
settings are those that its CPU kernels are fastest with: int4 in groups of 32, inputs of products rounded to
8 bits, a head for the last token only.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import onnxruntime_genai

OPTIONS = {"accuracy_level": "4", "block_size": "32", "prune_lm_head": "true", "hf_token": "false"}
NAME = "int4-block-32-level-4"
NOTE = "weights quantised again to int4 in groups of 32, accuracy level 4"


class Peer:
    def prepare(self, model: str, folder: str) -> dict[str, Any]:
        """Convert the GGUF file ``model`` once; the result stays in ``folder``, which belongs to this file.

        Needs memory and disk space for the float32 weights until it is done.
        """
        made = Path(folder) / f"onnxruntime-genai-{onnxruntime_genai.__version__}-{NAME}"
        if not made.is_dir():
            work = Path(folder) / "partial"
            shutil.rmtree(work, ignore_errors=True)  # of a conversion that was killed
            try:
                _save_floats(Path(model).resolve(), work / "floats")
                gc.collect()
                _build(work / "floats", work / "model", work / "scratch")
                os.replace(work / "model", made)
            except (LookupError, ValueError, TypeError, AttributeError, NotImplementedError) as error:
                # Errors of the builder for architectures that it does not know.
                raise RuntimeError(
                    f"its model builder cannot convert {Path(model).name} ({type(error).__name__}: {error})"
                ) from error
            finally:
                shutil.rmtree(work, ignore_errors=True)
        return {"model": str(made)}

    def open(self, model: str, threads: int, context: int, all_rows: bool = False) -> dict[str, Any]:
        """Load the directory that ``prepare`` made."""
        del context, all_rows
        config = onnxruntime_genai.Config(model)
        options = {"intra_op_num_threads": threads}
        config.overlay(json.dumps({"model": {"decoder": {"session_options": options}}}))
        self._model = onnxruntime_genai.Model(config)
        return {"version": f"onnxruntime-genai {onnxruntime_genai.__version__}", "isa": NOTE}

    def generate(self, tokens: list[int], max_tokens: int) -> dict[str, Any]:
        """Continue greedily by exactly ``max_tokens`` tokens from an empty cache. Times are in seconds."""
        params = onnxruntime_genai.GeneratorParams(self._model)
        total = len(tokens) + max_tokens
        # the least length is reached by passing over end tokens
        params.set_search_options(do_sample=False, max_length=total, min_length=total)
        generator = onnxruntime_genai.Generator(self._model, params)
        started = time.perf_counter()
        generator.append_tokens(tokens)
        out = [_next(generator)]
        first = time.perf_counter()
        out += [_next(generator) for _ in range(max_tokens - 1)]
        return {"prefill_s": first - started, "decode_s": time.perf_counter() - first, "tokens": out}


def _next(generator: Any) -> int:
    generator.generate_next_token()
    return int(generator.get_next_tokens()[0])


def _save_floats(gguf: Path, out: Path) -> None:
    """Write the weights of a GGUF file as float32, in the form that the builder reads."""
    import torch
    import transformers

    transformers.utils.logging.disable_progress_bar()
    where = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    model = transformers.AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32)
    # Still marked as quantised, which cannot be saved; but its weights are floats by now.
    model.hf_quantizer = None
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.save_pretrained(out)
    transformers.AutoTokenizer.from_pretrained(**where).save_pretrained(out)


def _build(source: Path, out: Path, scratch: Path) -> None:
    from onnxruntime_genai.models import builder

    common = (None, str(source), str(out), "int4", "cpu", str(scratch))
    options = builder.parse_extra_options(*common, [f"{key}={value}" for key, value in OPTIONS.items()])
    builder.create_model(*common, **options)
