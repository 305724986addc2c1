"""Texts a second, and peak memory, of an encoder beside other runtimes, each in its own process, by turns::

    python -P -m docs.measure.vectors BUNDLE ONNX_FOLDER [GGUF]

ONNX_FOLDER has ``model.onnx`` and ``tokenizer.json`` of the same model in float32. ONNX Runtime runs it by
the recipe of fastembed, which pads a batch of 256 texts to its longest. GGUF is for llama.cpp, where its
Python package is installed.
"""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgedec.system.memory import peak_rss_bytes

TEXTS, TURNS, THREADS, BATCH = 200, 5, 2, 256
LONGEST_TOKENS = 256
_WORDS = 5, 10, 20, 40, 60, 80

Embed = Callable[[], NDArray[np.float32]]


def texts() -> list[str]:
    """Return texts of 5 to 80 words of this project's guide, the same ones each time."""
    pages = sorted((Path(__file__).parents[1] / "guide").glob("*.md"))
    words = " ".join(page.read_text(encoding="utf-8") for page in pages).split()
    choose = random.Random(1)
    starts = [choose.randrange(len(words) - 200) for _ in range(TEXTS)]
    return [" ".join(words[start : start + choose.choice(_WORDS)]) for start in starts]


def edgedec(place: str) -> Embed:
    """EdgeDec's encoder, with its defaults."""
    import edgedec

    encoder, given = edgedec.open_encoder(place, threads=THREADS), texts()
    return lambda: encoder.embed(given).vectors


def onnxruntime(place: str) -> Embed:
    """ONNX Runtime by fastembed's recipe: padded batches, a mean over the tokens, normalised."""
    import onnxruntime as ort
    from tokenizers import Tokenizer

    options = ort.SessionOptions()
    options.intra_op_num_threads = THREADS
    session = ort.InferenceSession(f"{place}/model.onnx", options, providers=["CPUExecutionProvider"])
    tokenizer, given = Tokenizer.from_file(f"{place}/tokenizer.json"), texts()
    tokenizer.enable_truncation(LONGEST_TOKENS)
    tokenizer.enable_padding()

    def batch(part: Sequence[str]) -> NDArray[np.float32]:
        encoded = tokenizer.encode_batch(list(part))
        mask = np.array([one.attention_mask for one in encoded])
        fed = {
            "input_ids": np.array([one.ids for one in encoded]),
            "attention_mask": mask,
            "token_type_ids": np.array([one.type_ids for one in encoded]),
        }
        hidden = session.run(None, fed)[0]
        mean = (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
        found: NDArray[np.float32] = mean / np.linalg.norm(mean, axis=1, keepdims=True)
        return found

    return lambda: np.concatenate([batch(given[at : at + BATCH]) for at in range(0, len(given), BATCH)])


def llama_cpp(place: str) -> Embed:
    """llama.cpp by its Python package."""
    import llama_cpp as llama

    sizes = {"n_threads": THREADS, "n_threads_batch": THREADS, "n_ctx": 512, "n_batch": 512, "n_ubatch": 512}
    model, given = llama.Llama(place, embedding=True, verbose=False, **sizes), texts()
    return lambda: np.array(model.embed(given, normalize=True), np.float32)


SIDES: dict[str, Callable[[str], Embed]] = {
    "EdgeDec": edgedec, "ONNX Runtime": onnxruntime, "llama.cpp": llama_cpp,
}  # fmt: skip


def side(name: str, place: str) -> None:
    """Answer each line with the seconds of a run, the process's peak, and the vectors of the first run."""
    embed = SIDES[name](place)
    first: list[list[float]] = embed().tolist()
    for _ in sys.stdin:
        began = time.perf_counter()
        embed()
        said = {"seconds": time.perf_counter() - began, "peak": peak_rss_bytes(), "vectors": first}
        print(json.dumps(said), flush=True)  # noqa: T201


def main(places: Sequence[str]) -> None:
    """Run all sides by turns, and print a row for each."""
    named = dict(zip(SIDES, places, strict=False))
    running = {
        name: subprocess.Popen(
            [sys.executable, "-P", "-m", "docs.measure.vectors", "--side", name, place],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for name, place in named.items()
    }  # fmt: skip
    rates: dict[str, list[float]] = {name: [] for name in running}
    last = {}
    for _ in range(TURNS):
        for name, process in running.items():
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("\n")
            process.stdin.flush()
            last[name] = json.loads(process.stdout.readline())
            rates[name].append(TEXTS / last[name]["seconds"])
    exact = np.array(last["ONNX Runtime"]["vectors"])
    for name, process in running.items():
        process.communicate()
        cosine = (np.array(last[name]["vectors"]) * exact).sum(1).min()
        low, middle, high = min(rates[name]), statistics.median(rates[name]), max(rates[name])
        peak = f"{last[name]['peak'] / 1e6:.0f} MB"
        print(f"|{name}|{middle:.0f} ({low:.0f}-{high:.0f})|{peak}|{cosine:.7f}|")  # noqa: T201


if __name__ == "__main__":
    if sys.argv[1:2] == ["--side"]:
        side(*sys.argv[2:4])
    else:
        main(sys.argv[1:])
