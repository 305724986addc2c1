"""Vectors of texts: texts a second and peak memory of an encoder, beside other runtimes by turns."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgedec.bench.harness.journal import Journal
from edgedec.bench.harness.pairing import Spread, pair_ratios, rounded_or_none, settle, spread
from edgedec.bench.harness.runtimes import EDGEDEC, OTHERS, PROGRAMS, advice
from edgedec.bench.harness.study import Case, OpenSide, Study, StudyRow, StudySide, run_study
from edgedec.bench.harness.texts import PROMPTS, QUESTIONS
from edgedec.bench.harness.worker import Side
from edgedec.bundle.manifest import Manifest
from edgedec.core.errors import UnsupportedError
from edgedec.core.progress import Progress
from edgedec.core.quick_dataclass import dataclass

ENCODER_PEERS = ("onnxruntime", "llama.cpp")
"""Runtimes that make vectors beside EdgeDec: of a folder with an ONNX model, and of a GGUF file."""
TEXTS, TURNS = 200, 5
WORDS = 5, 10, 20, 40, 60, 80
"""Lengths of texts in words; each text has one of them."""


@dataclass(frozen=True, slots=True)
class SideVectors:
    """What one runtime took.

    - ``texts_per_s``: over turns; ``ratio``: that by EdgeDec's of the same turn, None for EdgeDec.
    - ``peak_rss_bytes``: peak of the process, which did nothing else.
    - ``least_cosine``: of its vectors with EdgeDec's, over all texts; None for EdgeDec.
    """

    version: str
    texts_per_s: Spread
    ratio: Spread | None
    peak_rss_bytes: int
    least_cosine: float | None

    def as_json(self) -> dict[str, object]:
        ratio = self.ratio.named("ratio") if self.ratio else {"ratio": None}
        facts = {"peak_rss_bytes": self.peak_rss_bytes, "least_cosine": rounded_or_none(self.least_cosine)}
        return {"version": self.version, **self.texts_per_s.named("texts_per_s"), **ratio, **facts}


def drawn_texts() -> list[str]:
    """Return texts of 5 to 80 words of the built-in questions, the same ones each time."""
    words = " ".join((*PROMPTS, *QUESTIONS)).split()
    choose = random.Random(1)
    return [" ".join(choose.choices(words, k=choose.choice(WORDS))) for _ in range(TEXTS)]


def encoder_sides(
    bundle: Path, manifest: Manifest, threads: int, peers: Mapping[str, Path]
) -> list[StudySide]:
    """Return EdgeDec's side and those of ``peers``, by name with the model that each opens.

    Raises UnsupportedError for a model that makes no vectors.
    """
    facts = manifest.embedding
    if facts is None or facts.ranks:
        hint = "name a model that does, such as all-minilm-l6-v2"
        raise UnsupportedError(f"{manifest.name} makes no vectors of texts", hint=hint)
    shared: dict[str, Any] = {"threads": threads}
    own = Side(EDGEDEC, PROGRAMS / "edgedec_embed_peer.py", bundle, settings=shared)
    unit = {"normalised": facts.normalised}
    settings: dict[str, dict[str, Any]] = {
        "onnxruntime": {"longest": manifest.spec.context_length, "pooling": facts.pooling, **unit},
        "llama.cpp": unit,
    }
    others = [
        Side(
            name,
            PROGRAMS / f"{name.replace('.', '_')}_embed_peer.py",
            model,
            settings={**shared, **settings[name]},
            advice=advice(name) if name in OTHERS else None,
        )
        for name, model in peers.items()
    ]
    return [StudySide.of(side) for side in (own, *others)]


def measure_vectors(
    sides: Sequence[StudySide],
    texts: Sequence[str],
    progress: Progress,
    pause: Callable[[], None] = settle,
) -> dict[str, SideVectors]:
    """Let the sides make the vectors of all texts by turns. Raises the errors of ``Worker``."""

    def ask(host: OpenSide, case: Case, side: StudySide) -> StudyRow:
        pause()
        took = host.request("embed", texts=list(texts))
        took["peak_rss_bytes"] = host.request("memory")["peak_rss_bytes"]
        if case.turn == TURNS - 1:  # they go through the pipe, which takes memory
            took |= host.request("vectors", texts=list(texts))
        return StudyRow(case.key, side.name, took)

    def warm(host: OpenSide, case: Case, side: StudySide) -> None:
        host.request("embed", texts=list(texts))

    cases = [Case((turn,), turn) for turn in range(TURNS)]
    run = Study(sides=sides, cases=cases, total=TURNS, ask=ask, warm=warm)
    journal: Journal[StudyRow] = run_study(run, Journal(), progress)
    rows = {side.name: [journal.answers[(turn, side.name)].took for turn in range(TURNS)] for side in sides}
    return {name: _figures(name, rows, journal.opened[name]) for name in rows}


def _figures(
    name: str, rows: Mapping[str, Sequence[Mapping[str, Any]]], opened: Mapping[str, Any]
) -> SideVectors:
    rates = {side: [TEXTS / took["seconds"] for took in each] for side, each in rows.items()}
    others = name != EDGEDEC
    return SideVectors(
        version=opened["version"],
        texts_per_s=spread(rates[name]),
        ratio=spread(pair_ratios(rates[name], rates[EDGEDEC])) if others else None,
        peak_rss_bytes=rows[name][-1]["peak_rss_bytes"],
        least_cosine=_least_cosine(rows[name][-1], rows[EDGEDEC][-1]) if others else None,
    )


def _least_cosine(took: Mapping[str, Any], own: Mapping[str, Any]) -> float:
    one, other = (np.array(each["vectors"], np.float64) for each in (took, own))
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    return float(((one * other).sum(1) / lengths).min())
