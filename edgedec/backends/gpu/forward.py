"""One sequence over a ``GpuModel``, with a KV cache on the GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from edgedec.backends.cache_forward import CacheForward
from edgedec.backends.gpu.cache import GpuCache
from edgedec.backends.gpu.executor import Executor
from edgedec.backends.gpu.head import head_rows_of
from edgedec.backends.gpu.inputs import GpuPass, Route, TrimmedIds
from edgedec.backends.gpu.states import GpuStates
from edgedec.backends.head_rows import check_finite
from edgedec.backends.kv_states import KvStates
from edgedec.backends.peeked import NOTHING, PeekingForward, check_peek
from edgedec.backends.state_store import states_file_bytes, states_layout
from edgedec.core.forward import Capabilities, Copying, Forward, Portable, Sink, Source
from edgedec.core.ledger import Ledger
from edgedec.core.model_spec import ModelSpec
from edgedec.core.rows import LAST_ROW, HeadRows, Parents, Rows
from edgedec.memory import CacheBook, PlannedPass


class GpuForward(CacheForward, Forward, PeekingForward, Portable, Copying):
    """The ``Forward`` over an ``Executor``; ``GpuModel.forward`` makes it.

    A DeviceLostError leaves the forward without its cache: make another one, and feed the committed tokens.
    """

    def __init__(
        self, executor: Executor, spec: ModelSpec, caps: Capabilities, ledger: Ledger, weight_bytes: int
    ) -> None:
        capacity = executor.program.capacity
        states = KvStates(GpuStates(executor, spec, ledger), ledger) if spec.states else None
        book = CacheBook(capacity, window=spec.window, states=states.book if states else None)
        super().__init__(spec, caps, book, ledger, states)
        self.executor = executor
        assert executor.program.head is not None, "all layers are on the GPU"
        self._head = executor.program.head
        self._cache = GpuCache(executor.device, spec, capacity, executor.program.kv, executor.caches())
        self._weight_bytes = weight_bytes
        self._kept_taps: tuple[int, ...] = ()
        """Layers whose rows are kept of all peeked tokens."""
        self._tapped: tuple[int, ...] = ()
        self._trimmed: TrimmedIds | None = None
        self._applies = any(kind.state for kind in spec.states)
        """Whether passes have steps of states, and not of convolutions alone."""

    def extend(self, tokens: Sequence[int], *, parents: Parents = None, rows: Rows = LAST_ROW) -> HeadRows:
        """See ``Forward.extend``.

        Raises DeviceLostError, BackendError when the GPU fails, and BadFileError when logits are not numbers;
        nothing is appended then.
        """
        planned = self._placed(tokens, parents, rows)
        with self.computing(planned):
            return self._extended(tokens, planned, rows)

    def _extended(self, tokens: Sequence[int], planned: PlannedPass, rows: Rows) -> HeadRows:
        fed = self._pass(tokens, planned, rows)
        exit, count = self._peeked.exit, self._peeked.shared(tokens, planned.parents)
        if not {tap for tap in rows.taps if tap < exit} <= {*self._kept_taps}:
            count = 0  # the peek did not know that they would be wanted
        self._forget_peeked()
        self._tapped = fed.taps
        if count:
            rest = replace(fed, tokens=tokens[count:], first=count, rows=(), route=Route(exit, 0, exit - 1))
            if rest.tokens:
                self.executor.advance(replace(rest, taps=self._kept_taps))
            fed = replace(fed, route=Route(0, exit, exit - 1))
        found = self._computed(fed)
        if rows.taps:
            hidden = self.executor.states(len(tokens), rows.taps)
            self.ledger.hold(hidden, "hidden", hidden.nbytes)
            found = replace(found, hidden=hidden)
        return found

    def peek(
        self,
        tokens: Sequence[int],
        *,
        exit: int,
        resume: int | None = None,
        parents: Parents = None,
        rows: Rows = LAST_ROW,
    ) -> HeadRows:
        """See ``Peeking.peek``. Raises as ``extend``."""
        check_peek(rows)
        before = self._peeked.at(exit, resume)
        peeked = before.joined(tokens, parents, self.caps)
        planned = self._placed(peeked.tokens, peeked.parents, Rows(()))
        self._check_rows(rows)
        route = Route(exit, self.caps.exits[-1] if resume is None else resume, exit - 1)
        kept = self._kept_taps if len(before) else self._kept_below(exit)
        fed = replace(self._pass(tokens, planned, rows), first=len(before), route=route, taps=kept)
        found = self._computed(fed)
        self._peeked, self._kept_taps = peeked, kept
        return found

    def _kept_below(self, exit: int) -> tuple[int, ...]:
        """Layers whose rows a draft keeps: the last before its exit, and those of the last pass."""
        return tuple(sorted({exit - 1, *(tap for tap in self._tapped if tap < exit)}))

    def _pass(self, tokens: Sequence[int], planned: PlannedPass, rows: Rows) -> GpuPass:
        if rows.keep is not None and (self._trimmed is None or self._trimmed.ids is not rows.keep):
            self._trimmed = TrimmedIds.of(rows.keep)
        behind = planned.start - self._states.book.applied if self._states and self._applies else 0
        return GpuPass(
            tokens,
            planned.positions,
            planned.parents,
            planned.start,
            rows.resolve(len(tokens)),
            rows.full,
            rows.temperature,
            keep=self._trimmed if rows.keep is not None else None,
            taps=tuple(sorted({*rows.taps})),
            behind=behind,
        )

    def _computed(self, fed: GpuPass) -> HeadRows:
        found = head_rows_of(self._head, self.executor.run(fed), fed, self.ledger)
        check_finite(found.logsumexp)
        return found

    def _forget_peeked(self) -> None:
        self._peeked = NOTHING

    def rewind(self, length: int) -> None:
        """See ``Forward.rewind``."""
        self._forget_peeked()
        super().rewind(length)

    def keep_path(self, nodes: Sequence[int]) -> None:
        """See ``Forward.keep_path``. A path that begins the pass copies nothing."""
        self._forget_peeked()
        sources, targets = self._book.keep(nodes)
        if sources:
            start = targets[0]
            self.executor.settle(start, [slot - start for slot in sources])

    def copy_prefix(self, source: Forward, length: int) -> int:
        """See ``Copying.copy_prefix``."""
        alike = isinstance(source, GpuForward) and source is not self and source.spec == self.spec
        if (
            not alike
            or not isinstance(source, GpuForward)
            or source.executor.device is not self.executor.device
            or source.cache_layout != self.cache_layout
        ):
            raise ValueError(
                "tokens are copied from another cache of the same model and device only, in one format"
            )
        self.rewind(0)
        try:
            return self._copied(source, length)
        except BaseException:
            self.rewind(0)
            raise

    def _copied(self, source: GpuForward, length: int) -> int:
        if self._states and source._states:
            length = self._states.copy(source._states, length)
        if not length or not source._book.holds(length):
            self.rewind(0)
            return 0
        planned = self._book.plan(length, None)
        self._cache.copy(source._cache, length)
        self._book.lose(source._book.oldest)
        self._book.fill(planned)
        return self.length

    @property
    def cache_layout(self) -> str:
        """See ``Portable.cache_layout``."""
        return self._cache.layout + states_layout(self.spec.states)

    def cache_bytes(self, length: int) -> int:
        """See ``Portable.cache_bytes``."""
        return self._cache.nbytes(length) + (states_file_bytes(self.spec.states) if length else 0)

    def write_cache(self, sink: Sink, length: int) -> None:
        """See ``Portable.write_cache``."""
        self._check_held(length)
        self._cache.write(sink, length, self._book.oldest)
        if self._states and length:
            self._states.write(sink, length)

    def read_cache(self, source: Source, length: int) -> None:
        """See ``Portable.read_cache``. As if one pass had fed all the tokens."""
        self.rewind(0)
        if not length:
            return
        planned = self._book.plan(length, None)
        try:
            self._book.lose(self._cache.read(source, length))
            if self._states:
                self._states.read(source, length)
        except BaseException:
            self.rewind(0)
            raise
        self._book.fill(planned)
        self._check_read(length)

    def nbytes(self) -> dict[str, int]:
        """Bytes on the GPU; ``weights`` are shared by all forwards of the model."""
        program = self.executor.program
        return {
            "weights": self._weight_bytes,
            "kv_cache": program.cache_bytes(),
            "scratch": program.scratch_bytes(),
            **({"state": program.state_bytes()} if self._states else {}),
        }
