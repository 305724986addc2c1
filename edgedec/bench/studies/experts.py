"""Hits by policy: routings that a model's passes ask for, or that are drawn, are replayed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from edgedec.backends.onnx.model import OnnxModel
from edgedec.bench.studies.expert_policies import (
    Expectation,
    Foresight,
    Frequency,
    Recency,
    Routing,
    SlotPolicy,
    hits,
)
from edgedec.core.cache_config import CacheConfig
from edgedec.core.errors import UsageError
from edgedec.core.progress import Progress
from edgedec.core.quick_dataclass import dataclass

SHARES = (0.125, 0.25, 0.375, 0.5, 0.75)
"""Slots, as shares of all experts."""
REPLY_TOKENS = 48
_MOST_NUMBERS = 1 << 24
"""Most numbers of a recorded routing: 64 MB."""
BEST = "belady"
POLICIES: dict[str, tuple[Callable[[Routing], SlotPolicy], bool]] = {
    BEST: (Foresight, False),
    "lru": (Recency, False),
    "lru, by layer": (Recency, True),
    "lfu": (partial(Frequency, half_life=np.inf), False),
    **{f"lrfu {life}": (partial(Frequency, half_life=life), False) for life in (4, 16, 64)},
    "lrfu 16, by layer": (partial(Frequency, half_life=16), True),
    "expected 16": (partial(Expectation, recent=16, usual=16), False),
    "expected 1, 64": (partial(Expectation, usual=64), False),
    "expected 1, 16": (Expectation, False),
}
"""Policies by name, and whether each layer has slots of its own."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """Sizes of a routing that is drawn.

    ``again``: probability with which each of the last token's experts is taken again. The others are as
    likely as each other; with None all are.
    """

    count: int
    chosen: int
    again: float | None = None
    layers: int = 8
    tokens: int = 400


DRAWN = {
    "uniform, 4 of 32": Drawn(32, 4),
    "again 18 %, 4 of 32": Drawn(32, 4, 0.18),
    "again 35 %, 8 of 256": Drawn(256, 8, 0.35),
    "again 43 %, 8 of 128": Drawn(128, 8, 0.43),
}
"""The reuse that others measured of gpt-oss-20b, Qwen3.6-35B-A3B and Qwen3-30B-A3B."""


@dataclass(frozen=True, slots=True)
class ReplayedRouting:
    """``hits``: shares of requests by policy, one for each of ``slots``."""

    routing: str
    experts: int
    asked: int
    again: float
    """Share of an expert's requests that the layer's request before had too, of those of one token."""
    slots: tuple[int, ...]
    hits: dict[str, tuple[float, ...]]


def replay(name: str, routing: Routing, progress: Progress) -> ReplayedRouting:
    """Replay a routing with every policy and number of slots."""
    slots = tuple(max(routing.layers, round(share * routing.total)) for share in SHARES)
    found = {}
    for done, (policy, (make, by_layer)) in enumerate(POLICIES.items()):
        progress(name, done, len(POLICIES))
        counts = (hits(routing, make(routing), some, by_layer=by_layer) for some in slots)
        found[policy] = tuple(count / routing.asked for count in counts)
    return ReplayedRouting(name, routing.total, routing.asked, again(routing), slots, found)


def again(routing: Routing) -> float:
    """Return the share of a token's experts that the last token took too.

    Requests of the most frequent size are of one token; a prompt asks for more, or for what is left of it.
    """
    before: dict[int, set[int]] = {}
    ((usual, _),) = Counter(map(len, routing.requests)).most_common(1)
    same = asked = 0
    for experts in routing.requests:
        layer, now = int(experts[0]) // routing.count, set(experts.tolist())
        if layer in before and len(now) == len(before[layer]) == usual:
            same, asked = same + len(now & before[layer]), asked + len(now)
        before[layer] = now
    return same / max(asked, 1)


def drawn(sizes: Drawn, seed: int) -> Routing:
    """Draw a routing."""
    rng = np.random.default_rng(seed)
    last = [rng.permutation(sizes.count)[: sizes.chosen] for _ in range(sizes.layers)]
    requests = []
    for _ in range(sizes.tokens):
        for layer in range(sizes.layers):
            kept = last[layer][rng.random(sizes.chosen) < (sizes.again or 0.0)]
            old = kept if sizes.again is None else last[layer]
            others = np.setdiff1d(np.arange(sizes.count), old)
            new = rng.choice(others, sizes.chosen - len(kept), replace=False)
            last[layer] = np.sort(np.concatenate([kept, new]))
            requests.append(last[layer] + layer * sizes.count)
    return Routing(sizes.layers, sizes.count, requests)


def recorded(model: OnnxModel, prompts: Sequence[Sequence[int]], progress: Progress) -> Routing:
    """Reply to prompts, and return which experts the passes asked for.

    Raises UsageError for a model that was opened without a store of experts.
    """
    store = model.experts
    if store is None:
        raise UsageError("the model's experts are not in a store, which records them")
    store.limit(store.experts.total)
    store.trace(_MOST_NUMBERS)
    forward = model.forward(CacheConfig(capacity=max(map(len, prompts)) + REPLY_TOKENS))
    ends = frozenset(model.spec.eos_ids)
    for done, prompt in enumerate(prompts):
        progress("replies", done, len(prompts))
        forward.rewind(0)
        longest = forward.caps.max_pass
        for first in range(0, len(prompt), longest):
            rows = forward.extend(prompt[first : first + longest])
        for _ in range(REPLY_TOKENS):
            if (token := int(rows.ids[-1][0])) in ends:
                break
            rows = forward.extend([token])
    return Routing(store.experts.layers, store.experts.count, store.traced())
