"""Several sequences over one model: they share one KV cache, and a pass has tokens of all of them.

A pass reads the weights once for all sequences. Attention is computed for each sequence by itself, so its
results are the bits of a pass of its own (``kernels/tree_attention/sequences.h``).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from edgedec.backends.backend import PassRequest, Submit
from edgedec.backends.checks import check_tokens
from edgedec.backends.onnx.bound_pass import Fed
from edgedec.backends.onnx.kv_forward import KvForward
from edgedec.backends.onnx.kv_memory import KvMemory
from edgedec.backends.onnx.passes import OnnxPasses
from edgedec.core.forward import Capabilities
from edgedec.core.model_spec import ModelSpec
from edgedec.core.rows import LAST_ROW, HeadRows, Rows
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
        self.count = count
        self.most = most
        """Tokens of one pass over all sequences."""
        submit = submit or self._alone
        self.forwards = tuple(
            SequenceForward(number, kv.part(number, count), model, submit) for number in range(count)
        )
        """One ``Forward`` for each sequence."""

    def check(self, request: PassRequest) -> None:
        """Raises the errors of ``Forward.extend`` for this request, whatever else is in the pass."""
        self.forwards[request.sequence].planned(request)

    def run(self, requests: Sequence[PassRequest]) -> list[HeadRows]:
        """Run one pass over all requests, at most one for each sequence.

        Requests that want other head rows than the first one (whole rows, another temperature) get a pass of
        their own.

        When something is wrong nothing is appended to any of them: ValueError for more than ``most`` tokens
        or two requests for a sequence, and the errors of ``Forward.extend``.
        """
        if len({request.sequence for request in requests}) < len(requests):
            raise ValueError("two requests for one sequence")
        if (count := sum(len(request.tokens) for request in requests)) > self.most:
            raise ValueError(f"{count} tokens in one pass: at most {self.most}")
        planned = {request.sequence: self.forwards[request.sequence].planned(request) for request in requests}
        results: dict[int, HeadRows] = {}
        with ExitStack() as computing:
            for number, own in planned.items():
                computing.enter_context(self.forwards[number].computing(own))
            for group in _alike(requests):
                results |= self._together(group, planned)
        return [results[request.sequence] for request in requests]

    def _alone(self, request: PassRequest) -> HeadRows:
        return self.run([request])[0]

    def _together(
        self, requests: Sequence[PassRequest], planned: dict[int, PlannedPass]
    ) -> dict[int, HeadRows]:
        tokens: list[int] = []
        positions: list[int] = []
        parents: list[int] = []
        rows: list[int] = []
        lengths = [self.count]
        counts: list[int] = []
        for request in requests:
            own = planned[request.sequence]
            chosen = request.rows.resolve(len(own))
            rows += [len(tokens) + row for row in chosen]
            counts.append(len(chosen))
            tokens += request.tokens
            positions += own.positions
            parents += own.parents
            lengths += (len(own), request.sequence, own.start)
        wants = next((request.rows for request, n in zip(requests, counts, strict=True) if n), LAST_ROW)
        head = self._passes.run(Fed(tokens, positions, parents, lengths, rows, wants.full, wants.temperature))
        found, first = {}, 0
        for request, count in zip(requests, counts, strict=True):
            found[request.sequence] = _part(head, first, first + count)
            first += count
        return found


class SequenceForward(KvForward):
    """The ``Forward`` of sequence ``number``; ``submit`` computes the requests of ``extend``."""

    def __init__(self, number: int, kv: KvMemory, model: SequenceModel, submit: Submit) -> None:
        super().__init__(kv, model.spec, model.caps, model.weight_bytes)
        self.number = number
        self._submit = submit

    def extend(
        self, tokens: Sequence[int], *, parents: Sequence[int] | None = None, rows: Rows = LAST_ROW
    ) -> HeadRows:
        """See ``Forward.extend``. Raises BackendError when the runtime fails and BadFileError when the
        logits are not numbers; nothing is appended then.
        """
        return self._submit(PassRequest(self.number, tokens, parents, rows))

    def planned(self, request: PassRequest) -> PlannedPass:
        """Return where the tokens would go; nothing changes. Raises the errors of ``extend``."""
        check_tokens(request.tokens, self.caps.max_pass, self.spec.vocab_size)
        self._check_rows(request.rows)
        request.rows.resolve(len(request.tokens))
        return self._plan(len(request.tokens), request.parents)


def _alike(requests: Sequence[PassRequest]) -> list[list[PassRequest]]:
    """Group requests whose head rows come from one call; requests without rows join the first group."""
    groups: dict[tuple[bool, float], list[PassRequest]] = {}
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
