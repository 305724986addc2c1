"""Models whose experts are most of their bytes, each run in a process of its own within a budget."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from edgedec.export import export_gguf
from tests.fixtures.tiny_experts import ExpertShape
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.fixtures.tiny_hybrid import DeltaShape

_SHAPE = TinyShape(hidden=512, ffn=512, heads=8, kv_heads=2, head_dim=64, context=2048, window=64)
_EXPERTS = ExpertShape(count=64, chosen=4, width=512, shared=512)
LAYERS = {"qwen3moe": 8, "lfm2moe": 9, "granitemoe": 8, "qwen35moe": 8, "gemma4moe": 8, "gpt-oss": 8}
"""Architectures, and layers with which experts have about 230 MB."""
_FORMATS = {"*": "q8_0", **{f"ffn_{part}_exps": "q4_k" for part in ("gate", "up", "gate_up", "down")}}
_MEGABYTES = (130, 140, 150, 175, 200, 250, 300, 400, 800)
_DRAFTS = ("off", "auto", "lookup", "lookup,recycling")
_LIMIT_S = 900
_BUDGET = 10
"""The status of MemoryBudgetError: no model fits, and nothing ran."""
_PROGRAM = """
import json, sys
from contextlib import suppress
from edgedec.assemble.config import RunConfig
from edgedec.models import Store
from edgedec.sampling.named import SamplingParams
from edgedec.core.errors import ContextFullError, MemoryBudgetError
from edgedec.server.work.hub import Hub
from edgedec.server.work.request import GenerationRequest
from edgedec.session.prompt import Message
from edgedec.system.memory import peak_rss_bytes
given = json.loads(sys.argv[1])
names = ("memory", "draft", "kv", "context", "conversations")
config = RunConfig(threads=2, **{name: given[name] for name in names})
try:
    hub = Hub([given["name"]], config, store=Store(given["home"]))
    for turn in range(given["turns"]):
        asked = []
        for number in range(given["requests"]):
            text = f"{number} {turn} " + "the mill at the river grinds flour " * given["words"]
            drawn = SamplingParams(temperature=0.9 * (number % 2), seed=number)
            how = {"sampling": drawn, "max_tokens": given["tokens"]}
            asked.append(GenerationRequest(messages=(Message("user", text),), **how))
        for ticket in [hub.submit(one) for one in asked]:
            with suppress(ContextFullError):  # a tight budget shortens the context
                list(ticket)
except MemoryBudgetError as error:
    sys.exit(error.exit_code)
hub.close()
print(json.dumps({"peak": peak_rss_bytes()}))
"""


@dataclass(frozen=True, slots=True)
class Run:
    """One process. ``share``: of the budget that its peak took."""

    given: dict[str, Any]
    peak: int

    @property
    def share(self) -> float:
        return self.peak / int(self.given["memory"])


def write_models(folder: Path) -> Path:
    """A home with a model of each architecture, made once."""
    home = folder / "home"
    for name, layers in LAYERS.items():
        bundle = home / "models" / name
        if bundle.exists():
            continue
        bundle.parent.mkdir(parents=True, exist_ok=True)
        delta = DeltaShape(nextn=1) if name == "qwen35moe" else DeltaShape()
        shape = replace(_SHAPE, layers=layers, experts=_EXPERTS, delta=delta)
        file = write_tiny(folder / f"{name}.gguf", name, shape=shape, formats=_FORMATS)
        export_gguf(file, bundle)
        file.unlink()
    return home


def runs(home: Path, count: int, seed: int = 0) -> Iterator[Run]:
    """``count`` runs, drawn at random; budgets in which a model does not fit at all count for none."""
    draw, done = random.Random(seed), 0
    while done < count:
        given = {
            "home": str(home),
            "name": draw.choice(list(LAYERS)),
            "memory": draw.choice(_MEGABYTES) * 1_000_000,
            "draft": draw.choice(_DRAFTS),
            "kv": draw.choice(("fp16", "int8")),
            "context": draw.choice((512, 2048)),
            "words": draw.choice((0, 3, 17, 65)),
            "tokens": draw.choice((4, 24)),
            "turns": draw.choice((1, 3)),
            "conversations": draw.choice((1, 1, 4)),
        }
        given["requests"] = 6 if given["conversations"] > 1 else 1
        command = [sys.executable, "-c", _PROGRAM, json.dumps(given)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
        if ended.returncode == _BUDGET:
            continue
        assert ended.returncode == 0, f"{given}: {ended.stderr}"
        done += 1
        yield Run(given, json.loads(ended.stdout.splitlines()[-1])["peak"])
