"""HeadTopK: logits, block sums, the k best and their logits of two terms; the host does the rest."""

from __future__ import annotations

from dataclasses import replace

from edgedec.backends.gpu.build.builder import FLOAT, Builder
from edgedec.backends.gpu.build.linear import Product, multiply, quantised, table_pieces
from edgedec.backends.gpu.formats import activation_groups, constants
from edgedec.backends.gpu.program import TRIM_IDS, TRIM_TILES, GridCount, HeadEnding, When
from edgedec.backends.onnx.graph import OpNode
from edgedec.kernels.packing.formats import FORMATS, TILE

_BLOCK = 1024
"""Entries of the vocabulary that a workgroup reduces."""
_ENTRY_BYTES = 8
_THREADS = 64


def head_topk(build: Builder, node: OpNode) -> HeadEnding:
    """Build the head, and return how the host ends it."""
    x, table, format = node.input(0), node.input(1), node.text("format")
    vocabulary, cols, k = (node.integer(name) for name in ("rows", "cols", "k"))
    softcap, blocks = node.real("softcap"), -(-vocabulary // _BLOCK)
    product = Product(table, format, vocabulary, cols, 0, vocabulary, 1)
    logits = build.made("logits", "row", vocabulary)
    sums = build.made("head.sums", "row", blocks * 3)
    candidates = build.made("head.candidates", "row", 2 * k)
    for when in _kinds(build, vocabulary):
        kept = when == "kept"
        multiply(build, x, [replace(product, when=when)], logits)
        build.step(
            "head_topk/sums",
            {"ROWS": vocabulary, "SOFTCAP": softcap, "KEPT": kept},
            (logits, sums),
            (GridCount("kept", over=_BLOCK) if kept else GridCount("once", blocks), GridCount("rows")),
            when=when,
        )
        best = _best(build, logits, vocabulary, k, when)
        build.step(
            "head_topk/candidates",
            {"K": k, "ROWS": vocabulary, "KEPT": kept},
            (best, logits, candidates, TRIM_IDS if kept else best),
            (GridCount("once", k, _THREADS), GridCount("rows")),
            when=when,
        )
    results = {"sums": sums, "candidates": candidates}
    refined = bool(node.integer("refine")) and product.integer
    if refined:
        results["fine"] = _fine(build, x, product, k, candidates)
    return HeadEnding(k, vocabulary, blocks, refined, softcap, results, logits)


def _kinds(build: Builder, vocabulary: int) -> tuple[When, ...]:
    """The kinds of heads: the whole one, and in a program for drafting a trimmed one too."""
    if not build.limits.drafting.taps:
        return ("rows",)
    tiles = -(-vocabulary // TILE)
    build.scratch(TRIM_TILES, "once", tiles * (1 + TILE) * FLOAT)
    build.scratch(TRIM_IDS, "once", vocabulary * FLOAT)
    return ("whole", "kept")


def _fine(build: Builder, x: str, product: Product, k: int, candidates: str) -> str:
    """Build the candidates' logits of two terms; return the buffer that has them."""
    acts = quantised(build, x, product.cols, 2, "row")
    fine = build.made("head.fine", "row", k)
    shape = {
        **constants(product.format),
        "RECORDS": FORMATS[product.format].records(product.cols),
        "GROUPS": activation_groups(product.cols),
        "K": k,
    }
    for first, rows, weight in table_pieces(
        build, product.weight, product.format, product.rows, product.cols
    ):
        build.step(
            "head_topk/refine",
            {**shape, "FIRST": first, "ROWS": rows},
            (weight, acts, candidates, fine),
            (GridCount("once", k), GridCount("rows")),
            when="rows",
        )
    return fine


def _best(build: Builder, logits: str, vocabulary: int, k: int, when: When) -> str:
    """Build the steps that reduce each row to its k best; return the buffer that has them."""
    source, count, number = logits, vocabulary, 0
    while True:
        lists = -(-count // _BLOCK)
        best = build.scratch(f"head.best{number}", "row", lists * k * _ENTRY_BYTES)
        build.step(
            "head_topk/best",
            {"COUNT": count, "K": k, "LOGITS": number == 0, "KEPT": number == 0 and when == "kept"},
            (source, source, best),
            (GridCount("once", lists), GridCount("rows")),
            when=when,
        )
        if lists == 1:
            return best
        source, count, number = best, lists * k, number + 1
