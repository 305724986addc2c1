"""How far a bundle without our kernels is from them, and from a float reference of the same weights.

``python -m tests.portable.agreement BUNDLE [--text TEXT] [--tokens 16] [--mode MODE]`` prints it. Modes, as
in docs/portable.md: ``float``; ``rounded``; and ``packed``, which decodes the weights in every pass.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from edgedec.bundle.manifest import Manifest
from edgedec.core.rows import Rows
from edgedec.system.memory import peak_rss_bytes
from edgedec.text.tokenizer import Tokenizer
from tests.fixtures.opened import onnx_forward
from tests.portable.runner import Runner, options
from tests.reference.graph import graph_logits

Logits = NDArray[np.float32]


def without_kernels(bundle: Path, prompt: list[int], count: int, mode: str) -> tuple[list[int], Logits]:
    """A greedy reply and the logits of its tokens, [count, V]."""
    chosen = options(rounded=mode == "rounded")
    if mode == "packed":
        chosen.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    start, before = time.perf_counter(), time.process_time()
    runner = Runner(bundle, chosen, capacity=len(prompt) + count)
    print(f"load: {time.perf_counter() - start:.1f} s ({time.process_time() - before:.1f} s of the CPU)")
    tokens: list[int] = []
    logits: list[Logits] = []
    seconds, feed = [], prompt
    for _ in range(count):
        start = time.process_time()
        logits.append(runner.run(feed)["logits"][-1])
        seconds.append(time.process_time() - start)
        feed = [int(logits[-1].argmax())]
        tokens += feed
    print(
        f"a token: {1e3 * float(np.median(seconds)):.0f} ms of the CPU; peak: {peak_rss_bytes() / 1e6:.0f} MB"
    )
    return tokens, np.array(logits)


def with_kernels(bundle: Path, tokens: list[int], rows: tuple[int, ...]) -> Logits:
    """EdgeDec's logits of some tokens of one pass, [R, V]."""
    forward = onnx_forward(bundle, Manifest.load(bundle), threads=2, capacity=len(tokens), spin=False)
    found = forward.extend(tokens, rows=Rows(rows, full=True)).logits
    assert found is not None
    return found


def compare(name: str, got: Logits, other: Logits) -> None:
    """One line: equal choices, and the largest difference as a share of the largest logit."""
    same = int((got.argmax(axis=1) == other.argmax(axis=1)).sum())
    share = np.abs(got - other).max() / np.abs(other).max()
    print(f"{name}: {same} of {len(got)} tokens equal, logits within {share:.2g} of the largest")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--text", default="The capital of France is")
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--mode", choices=("float", "rounded", "packed"), default="float")
    args = parser.parse_args()
    tokenizer = Tokenizer.load(args.bundle, Manifest.load(args.bundle).tokenizer)
    prompt = tokenizer.encode(args.text)
    reply, logits = without_kernels(args.bundle, prompt, args.tokens, args.mode)
    print(repr(tokenizer.decode(reply)))
    # The others see the same tokens: equal choices all along mean equal greedy replies.
    fed, rows = [*prompt, *reply[:-1]], tuple(range(len(prompt) - 1, len(prompt) + args.tokens - 1))
    compare("kernels", logits, with_kernels(args.bundle, fed, rows))
    compare("float reference", logits, graph_logits(args.bundle, fed, cache=np.float16)[list(rows)])


if __name__ == "__main__":
    main()
