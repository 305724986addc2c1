"""Several conversations over one model: each has a place in one cache, and passes are over tokens of all.

What a pass reads of the weights, it reads once for all; attention is computed for each sequence by itself, so
that its results are the bits of a pass of its own (``kernels/tree_attention/sequences.h``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edgedec.backends.checks import check_tokens
from edgedec.backends.onnx.kv_forward import Cached
from edgedec.backends.onnx.kv_memory import KvMemory
from edgedec.backends.onnx.passes import Fed, Passes
from edgedec.core.forward import Capabilities
from edgedec.core.model_spec import ModelSpec
from edgedec.core.rows import LAST_ROW, HeadRows, Rows
from edgedec.memory import Pass


@dataclass(frozen=True, slots=True)
class Request:
    """What one conversation wants of a pass; see ``Forward.extend``."""

    place: int
    tokens: Sequence[int]
    parents: Sequence[int] | None = None
    rows: Rows = LAST_ROW


Submit = Callable[[Request], HeadRows]


class Places:
    """``count`` equal places of ``kv``. ``caps`` are those of one conversation; ``most``: tokens of a pass.

    Not for several threads at once, but for ``Batcher``.
    """

    def __init__(
        self,
        passes: Passes,
        kv: KvMemory,
        spec: ModelSpec,
        caps: Capabilities,
        *,
        count: int,
        most: int,
        weights: int,
    ) -> None:
        self._passes = passes
        self.count = count
        self.most = max(most, caps.max_pass)
        """Tokens of one pass, of all conversations together."""
        self.forwards = tuple(
            PlaceForward(place, kv.part(place, count), spec, caps, self._alone, weights)
            for place in range(count)
        )
        """One ``Forward`` for each conversation."""

    def check(self, request: Request) -> None:
        """Raises what ``Forward.extend`` does for this request, whoever else is in the pass."""
        self.forwards[request.place].planned(request)

    def run(self, requests: Sequence[Request]) -> list[HeadRows]:
        """One pass for all, at most one request for each place; those who want other sums of the head than
        the first one (whole rows, another temperature) have a pass of their own.

        When something is wrong nothing is appended to any of them: ValueError for more than ``most`` tokens
        or two requests for a place, and what ``Forward.extend`` raises.
        """
        if len({request.place for request in requests}) < len(requests):
            raise ValueError("two requests for one place")
        if (count := sum(len(request.tokens) for request in requests)) > self.most:
            raise ValueError(f"{count} tokens in one pass: at most {self.most}")
        planned = {request.place: self.forwards[request.place].planned(request) for request in requests}
        results: dict[int, HeadRows] = {}
        for group in _alike(requests):
            results |= self._together(group, planned)
        for place, done in planned.items():
            self.forwards[place].append(done)
        return [results[request.place] for request in requests]

    def _alone(self, request: Request) -> HeadRows:
        return self.run([request])[0]

    def _together(self, requests: Sequence[Request], planned: dict[int, Pass]) -> dict[int, HeadRows]:
        tokens: list[int] = []
        positions: list[int] = []
        parents: list[int] = []
        rows: list[int] = []
        lengths = [self.count]
        counts: list[int] = []
        for request in requests:
            own = planned[request.place]
            chosen = request.rows.resolve(len(own))
            rows += [len(tokens) + row for row in chosen]
            counts.append(len(chosen))
            tokens += request.tokens
            positions += own.positions
            parents += own.parents
            lengths += (len(own), request.place, own.start)
        wants = next((request.rows for request, n in zip(requests, counts, strict=True) if n), LAST_ROW)
        head = self._passes.run(Fed(tokens, positions, parents, lengths, rows, wants.full, wants.temperature))
        found, first = {}, 0
        for request, count in zip(requests, counts, strict=True):
            found[request.place] = _part(head, first, first + count)
            first += count
        return found


class PlaceForward(Cached):
    """The ``Forward`` of one place. ``submit`` computes what ``extend`` asks for; see ``Batcher``."""

    def __init__(
        self, place: int, kv: KvMemory, spec: ModelSpec, caps: Capabilities, submit: Submit, weights: int
    ) -> None:
        super().__init__(spec, caps, kv)
        self.place = place
        self.submit = submit
        self._weight_bytes = weights

    def extend(
        self, tokens: Sequence[int], *, parents: Sequence[int] | None = None, rows: Rows = LAST_ROW
    ) -> HeadRows:
        """See ``Forward.extend``. Raises BackendError when the runtime fails and BadFileError when the
        logits are not numbers; nothing is appended then.
        """
        return self.submit(Request(self.place, tokens, parents, rows))

    def planned(self, request: Request) -> Pass:
        """Where its tokens would go; nothing changes. Raises what ``extend`` does for a wrong request."""
        check_tokens(request.tokens, self.caps.max_pass, self.spec.vocab_size)
        request.rows.resolve(len(request.tokens))
        return self._plan(len(request.tokens), request.parents)

    def append(self, done: Pass) -> None:
        """It was computed."""
        self._book.append(done)

    def nbytes(self) -> dict[str, int]:
        """``weights``: shared by all places; ``kv_cache``: of this one."""
        return {"weights": self._weight_bytes, "kv_cache": self._kv.reserved}


def _alike(requests: Sequence[Request]) -> list[list[Request]]:
    """Those whose head results can come from one call; who wants no rows goes with anybody."""
    groups: dict[tuple[bool, float], list[Request]] = {}
    for request in requests:
        if request.rows.resolve(len(request.tokens)):
            groups.setdefault((request.rows.full, request.rows.temperature), []).append(request)
    silent = [request for request in requests if not request.rows.resolve(len(request.tokens))]
    if not groups:
        return [silent] if silent else []
    found = list(groups.values())
    return [found[0] + silent, *found[1:]]


def _part(head: HeadRows, first: int, end: int) -> HeadRows:
    return HeadRows(
        head.values[first:end],
        head.ids[first:end],
        head.logsumexp[first:end],
        head.entropy[first:end],
        None if head.logits is None else head.logits[first:end],
        head.temperature,
    )
