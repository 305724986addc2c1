"""How often each rule accepts a draft of the same drafter: ``python -m tests.verify.acceptance``.

Synthetic pairs first; with ``--bundle DIR`` also a real model's rows against those of a worse drafter: the
same model at another temperature, or seeing only the last tokens. Every figure is the share of rounds in
which one of k drafted tokens was accepted, counted over rounds of the package's own rules.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from edgedec.backends.open import open_backend
from edgedec.bundle.manifest import Manifest
from edgedec.core.rows import Rows
from edgedec.sampling import DrawParams
from edgedec.text.tokenizer import Tokenizer
from tests.reference import noise
from tests.reference.sampling import distribution
from tests.reference.verification import Chance, k_seq, recursive_rejection, speculative_sampling
from tests.verify.support import F64, draft_chains, draft_without_replacement

Rate = Callable[[F64, F64, int, int], bool]
"""(p, q, k, round) -> whether a draft of k tokens was accepted."""
WIDTHS = (1, 2, 4)
WARM = DrawParams(temperature=0.8, top_p=0.95)
TEXT = "The history of the city begins in the third century, when a tribe settled on the banks of the river"


def keyed_likeliest(p: F64, q: F64, k: int, at: int) -> bool:
    """The k most probable tokens of q; the target's is drawn with its noise."""
    return raced(p, at) in np.argsort(-q, kind="stable")[:k]


def keyed_same_noise(p: F64, q: F64, k: int, at: int) -> bool:
    """The k tokens that win the race under q, with the noise with which the target draws."""
    times = noise.exponential(1, at, np.arange(q.size))
    with np.errstate(divide="ignore"):
        return raced(p, at) in np.argsort(times / q, kind="stable")[:k]


def raced(p: F64, at: int) -> int:
    with np.errstate(divide="ignore"):
        return int((noise.exponential(1, at, np.arange(p.size)) / p).argmin())


def rejection(p: F64, q: F64, k: int, at: int) -> bool:
    chance = Chance(2, at)
    tree = draft_chains(lambda _: q, 1, 1, chance)
    return len(speculative_sampling(tree, lambda _: p, lambda _: q, chance).path) > 0


def recursive(p: F64, q: F64, k: int, at: int) -> bool:
    chance: Chance = Chance(3, at)
    tree = draft_without_replacement(lambda _: q, (k,), chance)
    return len(recursive_rejection(tree, lambda _: p, lambda _: q, chance).path) > 0


def sequential(p: F64, q: F64, k: int, at: int) -> bool:
    chance = Chance(4, at)
    tree = draft_chains(lambda _: q, k, 1, chance)
    return len(k_seq(tree, lambda _: p, lambda _: q, chance).path) > 0


RULES: dict[str, Rate] = {
    "keyed, likeliest": keyed_likeliest,
    "keyed, same noise": keyed_same_noise,
    "rejection": rejection,
    "recursive": recursive,
    "k-SEQ": sequential,
}
Pairs = Sequence[tuple[F64, F64]]


def total_variation(p: F64, q: F64) -> float:
    return 0.5 * float(np.abs(p - q).sum())


def synthetic(distance: float, size: int = 32) -> tuple[F64, F64]:
    """A random p, and a q at this total variation from it (at most that of another random distribution)."""
    rng = np.random.default_rng(0)
    p, other = (weights / weights.sum() for weights in np.exp(2.0 * rng.standard_normal((2, size))))
    share = distance / total_variation(p, other)
    return p, (1.0 - share) * p + share * other


def acceptance(rule: Rate, pairs: Pairs, k: int, rounds: int) -> float:
    """Share of ``rounds`` over all pairs in turn."""
    return sum(rule(*pairs[at % len(pairs)], k, at) for at in range(rounds)) / rounds


def table(named: dict[str, Pairs], rounds: int) -> Iterator[str]:
    """Lines of a Markdown table."""
    yield "| pair | TV | k | " + " | ".join(RULES) + " |"
    yield "|---" * (3 + len(RULES)) + "|"
    for name, pairs in named.items():
        mean = float(np.mean([total_variation(*pair) for pair in pairs]))
        for k in WIDTHS:
            rates = [
                "" if rule is rejection and k > 1 else f"{acceptance(rule, pairs, k, rounds):.3f}"
                for rule in RULES.values()
            ]
            yield f"| {name} | {mean:.2f} | {k} | " + " | ".join(rates) + " |"


def real(bundle: Path, tokens: int) -> dict[str, Pairs]:
    """Distributions of a model along a text that it drew itself, and those of the drafters."""
    manifest = Manifest.load(bundle)
    forward = open_backend(bundle, manifest).forward()
    text = Tokenizer.load(bundle, manifest.tokenizer).encode(TEXT)
    start, size = len(text), manifest.spec.vocab_size
    distributions: dict[str, list[F64]] = {"target": [], "T = 1.2": [], "last 8 tokens": []}
    for _ in range(tokens):
        forward.rewind(0)
        head = forward.extend(text, rows=Rows(last=True, full=True))
        distributions["target"].append(distribution(head, 0, WARM, text, size))
        distributions["T = 1.2"].append(
            distribution(head, 0, DrawParams(temperature=1.2, top_p=0.95), text, size)
        )
        forward.rewind(0)
        head = forward.extend(text[-8:], rows=Rows(last=True, full=True))
        distributions["last 8 tokens"].append(distribution(head, 0, WARM, text, size))
        text.append(int(np.random.default_rng(len(text)).choice(size, p=distributions["target"][-1])))
    assert len(text) == start + tokens
    name = manifest.name
    return {
        f"{name}, {drafter}": [compact(p, q) for p, q in zip(distributions["target"], rows, strict=True)]
        for drafter, rows in distributions.items()
        if drafter != "target"
    }


def compact(p: F64, q: F64) -> tuple[F64, F64]:
    """Without the tokens that neither can say: no rule sees them."""
    either = np.flatnonzero((p > 0) | (q > 0))
    return p[either], q[either]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.verify.acceptance", description=__doc__)
    parser.add_argument("--bundle", type=Path, help="an exported model")
    parser.add_argument("--rounds", type=int, default=4_000, help="of each rule and pair")
    parser.add_argument("--tokens", type=int, default=200, help="length of the real text")
    arguments = parser.parse_args()
    pairs: dict[str, Pairs] = {f"synthetic, V = 32, {d}": [synthetic(d)] for d in (0.05, 0.2, 0.5)}
    if arguments.bundle:
        pairs |= real(arguments.bundle, arguments.tokens)
    for line in table(pairs, arguments.rounds):
        print(line, flush=True)


if __name__ == "__main__":
    main()
