"""The tables of measured.md in the order of their importance: commands, and cells made of their results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

from docs.measure.runs import ROOT, Command

SMOLLM, GEMMA, QWEN = "smollm2-135m", "gemma3-270m", "qwen2.5-coder-1.5b"
MODELS = (SMOLLM, GEMMA, QWEN)
_TIMES = {SMOLLM: 1.0, GEMMA: 2.0, QWEN: 6.0}
"""About how long a model takes, SmolLM2's time being 1."""
_TEXTS = tuple(str(ROOT / name) for name in ("docs/verification.md", "edgedec/decode/engine.py"))

Results = Mapping[str, Mapping[str, Any]]
"""Results by model."""
Rows = list[list[str]]


@dataclass(frozen=True, slots=True)
class Given:
    """Files that some tables need: questions in the format of Spec-Bench, GGUF files by model."""

    questions: Path | None = None
    ggufs: Mapping[str, Path] = field(default_factory=dict)
    llama: bool = field(default_factory=lambda: find_spec("llama_cpp") is not None)

    def asked(self, limit: int) -> tuple[str, ...]:
        """Return the options for the questions."""
        return ("--input", str(self.questions), "--limit", str(limit)) if self.questions else ()


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the page. ``sentence`` says what its figures are.

    ``commands``: by model; ``head`` and ``rows`` make cells of their results. ``lacks``: the reason why it
    cannot be measured with what is given; "" if it can.
    """

    name: str
    title: str
    sentence: str
    commands: Callable[[Given], Mapping[str, Command]]
    head: tuple[str, ...]
    rows: Callable[[Results], Rows]
    lacks: Callable[[Given], str] = lambda given: ""


def _each(
    models: Sequence[str], minutes: float, arguments: Callable[[str], tuple[str, ...]], saves: bool = False
) -> dict[str, Command]:
    return {name: Command(arguments(name), minutes * _TIMES[name], saves) for name in models}


def _number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _spread(found: Mapping[str, float], digits: int = 1) -> str:
    return f"{found['median']:.{digits}f} ({found['low']:.{digits}f}-{found['high']:.{digits}f})"


def _megabytes(count: float) -> str:
    return f"{count / 1e6:.1f} MB"


def _speed(given: Given) -> dict[str, Command]:
    return _each(MODELS, 0.2, lambda model: ("speed", "-m", model))


def _speed_rows(results: Results) -> Rows:
    rows = []
    for model, found in results.items():
        side, tokens = found["sides"]["edgedec"], median(found["prompt_tokens"])
        prefill = side["prefill_tokens_per_s"]
        first = f"{1e3 * tokens / prefill['median']:.0f} ms ({tokens:.0f} tokens)"
        decode = _spread(side["decode_tokens_per_s"])
        rows.append([model, decode, _spread(prefill, 0), first, _megabytes(side["peak_rss_bytes"])])
    return rows


def _passes(given: Given) -> dict[str, Command]:
    tail = ("--tokens", "1,2,4,8,16", "--repeat", "9")
    return _each(MODELS, 0.2, lambda model: ("kernels", "-m", model, *tail))


def _passes_rows(results: Results) -> Rows:
    rows = []
    for model, found in results.items():
        costs = {one["tokens"]: one for one in found["passes"]}
        cells = [f"{one['relative']:.2f}" for tokens, one in costs.items() if tokens > 1]
        rows.append([model, f"{costs[1]['ms']:.1f} ms", *cells, f"{found['bandwidth_fraction']:.0%}"])
    return rows


def _drafts(given: Given) -> dict[str, Command]:
    def arguments(model: str) -> tuple[str, ...]:
        limit = 1 if model == QWEN else 3
        short = ("--max-tokens", "48", "--draft", "auto", "--mode", "cold")
        return ("drafts", "-m", model, *given.asked(limit), *short)

    return _each(MODELS, 1.4 if given.questions else 0.2, arguments, saves=True)


def _drafts_rows(results: Results) -> Rows:
    """Make a row for each group of questions, and for all of them."""

    def cells(scores: Mapping[str, Any]) -> list[str]:
        found = []
        for side in _WARM_AND_COLD:
            speed = scores[side]["speed_up"].get("edgedec") or {}
            found += [_number(speed.get("by_processor_time")), _number(scores[side]["block_efficiency"])]
        return found

    groups = dict.fromkeys(name for found in results.values() for name in found["groups"])
    rows = []
    for name in groups if len(groups) > 1 else ():
        row = [name]
        for found in results.values():
            row += cells(found["categories"][name]) if name in found["categories"] else ["-"] * 4
        rows.append(row)
    last = [cell for found in results.values() for cell in cells(found["overall"])]
    differ = ["replies that differ"]
    for found in results.values():
        differ += [str(sum(one["replies"] for one in found["differing_replies"].values())), *[""] * 3]
    return [*rows, ["all", *last], differ]


def _energy_rows(results: Results) -> Rows:
    rows = []
    for model, found in results.items():
        plain = found["energy"]["sides"].get("edgedec")
        for side, one in found["energy"]["sides"].items():
            joules = 1e3 * one["joules_per_token"]
            bounds = f" ({1e3 * one['low']:.1f}-{1e3 * one['high']:.1f})" if one["estimated"] else ""
            label = "estimate" if one["estimated"] else f"measured by {one['source']}"
            ratio = one["joules_per_token"] / plain["joules_per_token"] if plain else None
            rows.append([f"{model}, {_way(side)}", f"{joules:.1f}{bounds}", label, _number(ratio)])
    return rows


def _way(side: str) -> str:
    return side.partition("+")[2] or "plain"


def _memory(given: Given) -> dict[str, Command]:
    return _each(MODELS, 0.2, lambda model: ("memory", "-m", model, "--memory", "least"))


def _memory_rows(results: Results) -> Rows:
    names = ("edgedec", "edgedec+auto", "edgedec+auto at least")
    return [
        [model, *(_megabytes(found["sides"][name]["peak_rss_bytes"]) for name in names)]
        for model, found in results.items()
    ]


def _budgets(given: Given) -> dict[str, Command]:
    levels = ("--memory", "-30%", "--memory", "-65%", "--memory", "-85%")

    def arguments(model: str) -> tuple[str, ...]:
        return ("drafts", "-m", model, *given.asked(1), "--max-tokens", "48", "--draft", "auto", *levels)

    return _each((SMOLLM, GEMMA), 1.2 if given.questions else 0.5, arguments, saves=True)


def _budgets_rows(results: Results) -> Rows:
    rows = []
    for model, found in results.items():
        for one in found["within"].values():
            if "refused" in one:
                rows.append([f"{model}, {one['level']}", "-", "-", one["refused"], "-"])
                continue
            speed = one["speed"]
            given_up = "; ".join(line.partition(":")[0] for line in one["given_up"]) or "nothing"
            cells = [_megabytes(one["generation_bytes"]), _number(speed and speed["median"]), given_up]
            rows.append([f"{model}, {one['level']}", *cells, str(one["differing_replies"])])
    return rows


def _faithful(given: Given) -> dict[str, Command]:
    def arguments(model: str) -> tuple[str, ...]:
        inputs = tuple(word for text in _TEXTS for word in ("--input", text))
        peers = ("--peer", "llama.cpp") if given.llama else ()
        return ("accuracy", "-m", str(given.ggufs[model]), *inputs, *peers)

    return _each([name for name in MODELS if name in given.ggufs], 1.0, arguments)


def _faithful_rows(results: Results) -> Rows:
    return [
        [f"{model}, {side}", f"{one['top1_agreement']:.2%}", f"{one['kl_mean']:.4f}",
         f"{one['perplexity']:.3f}", f"{one['reference_perplexity']:.3f}"]
        for model, found in results.items() for side, one in found["sides"].items()
    ]  # fmt: skip


def _kv(given: Given) -> dict[str, Command]:
    inputs = tuple(word for text in _TEXTS for word in ("--input", text))
    tail = (*inputs, "--kv", "int8", "--reference", "fp16")
    return _each(MODELS, 0.3, lambda model: ("accuracy", "-m", model, *tail))


def _kv_rows(results: Results) -> Rows:
    rows = []
    for model, found in results.items():
        one = found["sides"]["edgedec"]
        agree, kl = f"{one['top1_agreement']:.2%}", f"{one['kl_mean']:.4f}"
        rows.append([model, agree, kl, f"{found['kv_bytes_per_token']:,}"])
    return rows


def _batches(given: Given) -> dict[str, Command]:
    sizes = ("--batch", "1", "--batch", "4", "--batch", "8")
    return _each(MODELS, 0.4, lambda model: ("batch", "-m", model, *sizes))


def _batches_rows(results: Results) -> Rows:
    rows = []
    for model, found in results.items():
        for draft in dict.fromkeys(one["draft"] for one in found["results"]):
            some = [one for one in found["results"] if one["draft"] == draft]
            cells = [f"{one['tokens_per_s']:.0f} ({one['ratio']:.2f})" for one in some]
            rows.append([f"{model}, drafts {draft}", *cells, str(sum(one["differ"] for one in some))])
    return rows


def _beside(given: Given) -> dict[str, Command]:
    def arguments(model: str) -> tuple[str, ...]:
        return ("speed", "-m", str(given.ggufs[model]), "--peer", "llama.cpp")

    return _each([name for name in MODELS if name in given.ggufs], 0.3, arguments)


def _beside_rows(results: Results) -> Rows:
    rows = []
    for model, found in results.items():
        one = found["ratios"]["llama.cpp"]
        rates = [_spread(one["decode"], 2), _spread(one["prefill"], 2)]
        rows.append([model, *rates, _number(one["load"]["median"]), _number(one["peak_rss"])])
    return rows


def _no_gguf(given: Given) -> str:
    return "" if given.ggufs else "no GGUF file was named (--gguf MODEL=FILE)"


def _no_llama(given: Given) -> str:
    return _no_gguf(given) if given.llama else "llama.cpp is not installed"


_WARM_AND_COLD = ("edgedec+auto", "edgedec+auto cold")
_PAIRS = tuple(word for model in MODELS for word in (model, "tokens a pass", "cold", "tokens a pass"))
TABLES = (
    Table(
        "speed", "Speed and memory", "Plain decoding, medians, quartiles in brackets; peak of the process.",
        _speed, ("model", "decode, tok/s", "prefill, tok/s", "first token", "peak memory"), _speed_rows,
    ),
    Table(
        "drafts", "Drafts",
        "Speed-up of `auto` over plain decoding by processor time, and tokens a pass. Cold: a process each.",
        _drafts, ("", *_PAIRS), _drafts_rows,
    ),
    Table(
        "passes", "Passes", "Time of a pass over one token, and that of longer passes relative to it.",
        _passes, ("model", "1 token", "2", "4", "8", "16", "of the bandwidth"), _passes_rows,
    ),
    Table(
        "peaks", "Peak memory", "Most resident with 512 + 64 tokens; least: the smallest budget for them.",
        _memory, ("model", "drafts off", "auto", "auto, least"), _memory_rows,
    ),
    Table(
        "faithful", "Accuracy", "The same next token as float32 of the same weights, mean KL in nats.",
        _faithful, ("model and side", "same top-1", "mean KL", "perplexity", "of float32"), _faithful_rows,
        _no_gguf,
    ),
    Table(
        "energy", "Energy: estimates", "mJ a token of decoding; an estimate is no measurement.",
        _drafts, ("", "mJ a token", "source", "of plain"), _energy_rows,
    ),
    Table(
        "budgets", "Memory budgets", "Speed by the same session without a budget, median of replies.",
        _budgets, ("model, level", "generation memory", "speed", "given up", "replies that differ"),
        _budgets_rows,
    ),
    Table(
        "batches", "Batches", "Tokens per second of all conversations, by a batch of one in brackets.",
        _batches, ("", "1", "4", "8", "replies that differ"), _batches_rows,
    ),
    Table(
        "beside", "Beside llama.cpp", "EdgeDec by llama.cpp: above 1 is faster, or more memory and time.",
        _beside, ("model", "decode", "prefill", "load time", "peak memory"), _beside_rows, _no_llama,
    ),
    Table(
        "kv", "KV cache in int8", "Beside the KV cache in fp16 on the same tokens.",
        _kv, ("model", "same top-1", "mean KL", "bytes a token"), _kv_rows,
    ),
)  # fmt: skip
"""Tables in the order of their importance. A new table is an entry here."""
