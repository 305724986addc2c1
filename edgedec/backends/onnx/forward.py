"""One sequence over an ``OnnxModel``, with a KV cache of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from edgedec.backends.onnx.bound_pass import Fed, States
from edgedec.backends.onnx.kv_forward import KvForward
from edgedec.backends.onnx.kv_memory import KvMemory
from edgedec.backends.onnx.passes import OnnxPasses
from edgedec.backends.peeked import NOTHING, PeekingForward, check_peek
from edgedec.core.forward import Attending, Capabilities, Forward
from edgedec.core.model_spec import ModelSpec
from edgedec.core.rows import LAST_ROW, FloatArray, HeadRows, Parents, Rows
from edgedec.memory import PlannedPass, ring_keys


class OnnxForward(KvForward, Forward, PeekingForward, Attending):
    """The ``Forward`` over ``kv``, which ``passes`` read and write; ``OnnxModel.forward`` makes it."""

    def __init__(
        self, passes: OnnxPasses, kv: KvMemory, spec: ModelSpec, caps: Capabilities, weight_bytes: int
    ) -> None:
        super().__init__(kv, spec, caps, weight_bytes)
        self._passes, self._most = passes, spec.vocab_size
        self._below: States = {}
        """Outputs of lower layers, of all peeked tokens."""
        self._tapped: tuple[int, ...] = ()
        """Layers whose outputs the last pass returned: a peek remembers them for the next one."""

    def extend(self, tokens: Sequence[int], *, parents: Parents = None, rows: Rows = LAST_ROW) -> HeadRows:
        """See ``Forward.extend``.

        Raises BackendError when the runtime fails and BadFileError when logits are not numbers; nothing is
        appended then.
        """
        alone = len(tokens) == 1 and parents is None and self._states is None and self._peeked is NOTHING
        usual = rows.last and not rows.taps and (rows.keep is None or rows.keep is self._kept)
        if alone and usual and 0 <= tokens[0] < self._most:
            # A round without a draft, or a step of one: its time counts most.
            planned = self._plan(1, None)
            self._tapped = ()
            head = self._passes.step(tokens[0], planned.positions[0], planned.start, rows)
            self._book.fill(planned)
            return head
        planned, fed = self._planned(tokens, parents, rows)
        if self._states is None:  # nothing to restore
            head = self._computed(fed, rows.taps)
            self._book.append(planned)
            return head
        with self.computing(planned):
            return self._computed(fed, rows.taps)

    def _computed(self, fed: Fed, taps: tuple[int, ...]) -> HeadRows:
        if taps or self._peeked is not NOTHING:
            return self._beyond_peeked(fed, taps)
        self._tapped = ()
        return self._passes.run(fed)

    def _beyond_peeked(self, fed: Fed, taps: tuple[int, ...]) -> HeadRows:
        """Compute a pass whose first tokens may be the peeked ones, which are forgotten then."""
        count = self._peeked.shared(fed.tokens, fed.parents)
        exit, below = self._peeked.exit, self._below
        self._forget_peeked()
        self._tapped = states = tuple(sorted(set(taps)))
        if any(tap < exit and tap not in below for tap in states):
            count = 0  # the peek did not know that they would be wanted
        if count:
            fed = fed._replace(tokens=fed.tokens[count:], warm_exit=exit, warm=below[exit - 1][:count])
        result, found = self._passes.run_with_states(fed._replace(states=states))
        if not taps:
            return result
        if count:
            for tap in states:
                if tap < exit:
                    found[tap] = np.concatenate([below[tap][:count], found[tap]])
        whole = np.concatenate([found[tap] for tap in taps], axis=1)
        self.ledger.hold(whole, "hidden", whole.nbytes)
        return replace(result, hidden=whole)

    @property
    def attending(self) -> Attending | None:
        return None if ring_keys(self.spec) or self.spec.states else self

    def peek(
        self,
        tokens: Sequence[int],
        *,
        exit: int,
        resume: int | None = None,
        parents: Parents = None,
        rows: Rows = LAST_ROW,
    ) -> HeadRows:
        """See ``Peeking.peek``. Raises BackendError and BadFileError as ``extend``."""
        check_peek(rows)
        before = self._peeked.at(exit, resume)
        peeked = before.joined(tokens, parents, self.caps)
        _, fed = self._planned(peeked.tokens, peeked.parents, Rows(()))
        self._check_rows(rows)
        fed = fed._replace(
            tokens=tokens,
            rows=rows.resolve(len(tokens)),
            full=rows.full,
            temperature=rows.temperature,
            exit=exit,
            keep=rows.keep,
            states=tuple(sorted({*(tap for tap in self._tapped if tap < exit), exit - 1})),
        )
        result, found = self._passes.run_with_states(fed if resume is None else fed._replace(rows=()))
        if resume is not None:
            result = self._resumed(resume, found[exit - 1], fed)
        if len(before):
            found = {layer: np.concatenate([self._below[layer], found[layer]]) for layer in found}
            for state in found.values():
                self.ledger.hold(state, "hidden", state.nbytes)
        self._peeked, self._below = peeked, found
        return result

    def _resumed(self, resume: int, reached: FloatArray, fed: Fed) -> HeadRows:
        """Let the tokens of a peek, whose rows at the exit are ``reached``, go on above ``resume`` layers."""
        warm = np.ascontiguousarray(reached, dtype=np.float32)
        fed = fed._replace(tokens=(), warm_exit=resume, warm=warm)
        return self._passes.run(fed._replace(exit=0, states=()))

    def rewind(self, length: int) -> None:
        """See ``Forward.rewind``."""
        self._forget_peeked()
        super().rewind(length)

    def keep_path(self, nodes: Sequence[int]) -> None:
        """See ``Forward.keep_path``."""
        self._forget_peeked()
        super().keep_path(nodes)

    def select(self, first: int, end: int, kept: NDArray[np.intp]) -> None:
        """See ``Evicting.select``."""
        self._forget_peeked()
        super().select(first, end, kept)

    def attention(self, tokens: Sequence[int]) -> FloatArray:
        """See ``Attending.attention``; computes no logits."""
        self._forget_peeked()
        planned, fed = self._planned(tokens, None, Rows(()))
        found = self._passes.attention(fed)
        self._book.append(planned)
        return found

    def _forget_peeked(self) -> None:
        self._peeked, self._below = NOTHING, {}

    def _planned(self, tokens: Sequence[int], parents: Parents, rows: Rows) -> tuple[PlannedPass, Fed]:
        planned = self._placed(tokens, parents, rows)
        chosen = rows.resolve(len(tokens))
        fed = Fed(
            tokens,
            planned.positions,
            planned.parents,
            (planned.start,),
            chosen,
            rows.full,
            rows.temperature,
            keep=rows.keep,
            lent=rows.lent,
        )
        return planned, fed
