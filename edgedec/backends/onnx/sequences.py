"""Several sequences over one model: they share one KV cache, and a pass has tokens of all of them.

A pass reads the weights once for all sequences. Attention is computed for each sequence by itself, so its
results are the bits of a pass of its own (``kernels/tree_attention/sequences.h``).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import ExitStack
from typing import NamedTuple

from edgedec.backends.backend import PassRequest, Submit
from edgedec.backends.onnx.bound_pass import Fed
from edgedec.backends.onnx.kv_memory import KvMemory
from edgedec.backends.onnx.lending import LendingForward, lengths_of
from edgedec.backends.onnx.passes import OnnxPasses
from edgedec.core.forward import Capabilities, Forward
from edgedec.core.model_spec import ModelSpec
from edgedec.core.quick_dataclass import dataclass
from edgedec.core.rows import LAST_ROW, HeadRows, Keep, Parents, Rows
from edgedec.memory import PlannedPass


@dataclass(frozen=True, slots=True)
class SequenceModel:
    """The facts that all sequences share; ``caps`` are those of one of them."""

    spec: ModelSpec
    caps: Capabilities
    weight_bytes: int


class Sequences:
    """Equal parts of ``kv``, one for each of ``count`` sequences; ``OnnxModel.sequences`` makes them.

    ``most``: tokens of a pass over all. ``submit`` computes the requests of the forwards; None: a pass for
    each request. Not thread-safe: ``Batcher`` runs all passes in one thread.
    """

    def __init__(
        self,
        passes: OnnxPasses,
        kv: KvMemory,
        model: SequenceModel,
        count: int,
        most: int,
        submit: Submit | None,
    ) -> None:
        self._passes = passes
        self._recurrent = bool(model.spec.states)
        lock = self._lock = threading.RLock()
        self.count = count
        self.most = most
        """Tokens of one pass over all sequences."""
        submit = submit or self._alone
        self.forwards = tuple(
            SequenceForward(number, kv.part(number, count), model, submit, lock) for number in range(count)
        )
        """One ``Forward`` for each sequence."""
        self._checked: dict[int, _Placed] = {}
        """Places of the requests that ``check`` saw last: whole requests are placed once."""

    @property
    def repeatable(self) -> bool:
        """Whether a pass that failed leaves every sequence as it was; recurrent states go back further."""
        return not self._recurrent

    def check(self, request: PassRequest) -> None:
        """Raises the errors of ``Forward.extend`` for this request, whatever else is in the pass."""
        self._checked[request.sequence] = self.forwards[request.sequence].placed(request)

    def run(self, requests: Sequence[PassRequest], *, lent: bool = False) -> list[HeadRows]:
        """Run one pass over all requests, at most one for each sequence.

        Requests that want other head rows than the first one (whole rows, another temperature) get a pass of
        their own. ``lent``: whether the caller reads all results before the next pass, see ``Rows.lent``.

        When something is wrong nothing is appended to any of them: ValueError for more than ``most`` tokens
        or two requests for a sequence, and the errors of ``Forward.extend``.
        """
        if len({request.sequence for request in requests}) < len(requests):
            raise ValueError("two requests for one sequence")
        if (count := sum(len(request.tokens) for request in requests)) > self.most:
            raise ValueError(f"{count} tokens in one pass: at most {self.most}")
        placed = [self._placed(request) for request in requests]
        results: dict[int, HeadRows] = {}
        with self._lock, ExitStack() as computing:
            for one in placed if self._recurrent else ():
                computing.enter_context(self.forwards[one.sequence].computing(one.planned))
            groups = _alike(placed)
            for group in groups:
                results |= self._together(group, lent=lent and len(groups) == 1)
            for one in () if self._recurrent else placed:
                self.forwards[one.sequence].computed(one.planned)
        return [results[request.sequence] for request in requests]

    def _placed(self, request: PassRequest) -> _Placed:
        checked = self._checked.pop(request.sequence, None)
        if checked and checked.request is request:
            return checked
        return self.forwards[request.sequence].placed(request)

    def _alone(self, request: PassRequest) -> HeadRows:
        return self.run([request])[0]

    def _together(self, group: Sequence[_Placed], *, lent: bool) -> dict[int, HeadRows]:
        tokens: list[int] = []
        positions: list[int] = []
        parents: list[int] = []
        rows: list[int] = []
        forwards = self.forwards
        group = sorted(group, key=lambda one: (forwards[one.sequence].begins_in, one.sequence))
        passes = [(forwards[one.sequence], len(one.request.tokens), one.planned.start) for one in group]
        lengths = lengths_of(self.count, passes)
        for one in group:
            own, before = one.planned, len(tokens)
            rows += [before + row for row in one.rows]
            tokens += one.request.tokens
            positions += own.positions
            parents += own.parents
        wants = next((one.request.rows for one in group if one.rows), LAST_ROW)
        lent = lent and all(one.request.rows.lent for one in group)
        fed = Fed(tokens, positions, parents, lengths, rows, wants.full, wants.temperature, keep=_keep(group))
        head = self._passes.run(fed._replace(lent=lent))
        found, first = {}, 0
        for one in group:
            end = first + len(one.rows)
            found[one.sequence] = _part(head, first, end)
            first = end
        return found


class SequenceForward(LendingForward, Forward):
    """The ``Forward`` of sequence ``number``; ``submit`` computes the requests of ``extend``."""

    def __init__(
        self, number: int, kv: KvMemory, model: SequenceModel, submit: Submit, lock: threading.RLock
    ) -> None:
        super().__init__(number, kv, (model.spec, model.caps, model.weight_bytes), lock)
        self._submit = submit

    @property
    def lent(self) -> None:
        """Nothing: the cache has the keys and values of other sequences, too."""

    def extend(self, tokens: Sequence[int], *, parents: Parents = None, rows: Rows = LAST_ROW) -> HeadRows:
        """See ``Forward.extend``. Raises BackendError when the runtime fails and BadFileError when the
        logits are not numbers; nothing is appended then.
        """
        return self._submit(PassRequest(self.number, tokens, parents, rows))

    def placed(self, request: PassRequest) -> _Placed:
        """Return where the tokens would go; nothing changes. Raises the errors of ``extend``."""
        rows = request.rows.resolve(len(request.tokens))
        planned = self._placed(request.tokens, request.parents, request.rows)
        return _Placed(self.number, request, planned, rows)


class _Placed(NamedTuple):
    """A request, where its tokens go in the cache, and the indices of its tokens whose rows it wants."""

    sequence: int
    request: PassRequest
    planned: PlannedPass
    rows: Sequence[int]


def _alike(placed: Sequence[_Placed]) -> list[list[_Placed]]:
    """Group requests whose head rows come from one call; requests without rows join the first group."""
    groups: dict[tuple[bool, float], list[_Placed]] = {}
    for one in placed:
        if one.rows:
            wants = one.request.rows
            groups.setdefault((wants.full, wants.temperature), []).append(one)
    silent = [one for one in placed if not one.rows]
    if not groups:
        return [silent] if silent else []
    found = list(groups.values())
    return [found[0] + silent, *found[1:]]


def _keep(group: Sequence[_Placed]) -> Keep | None:
    """Return the ids that a pass computes its head for: of the requests with rows, the most that one keeps.

    None, all ids, where a request wants that. Ids beyond those that a request keeps do no harm.
    """
    most: Keep | None = None
    for one in group:
        if not one.rows:
            continue
        keep = one.request.rows.keep
        if keep is None:
            return None
        most = keep if most is None or keep.size > most.size else most
    return most


def _part(head: HeadRows, first: int, end: int) -> HeadRows:
    return HeadRows(
        head.values[first:end],
        head.ids[first:end],
        head.logsumexp[first:end],
        head.entropy[first:end],
        None if head.logits is None else head.logits[first:end],
        head.temperature,
    )
