"""One sequence over an ``OnnxModel``, with a KV cache of its own."""

from __future__ import annotations

from collections.abc import Sequence

from edgedec.backends.checks import check_tokens
from edgedec.backends.onnx.kv_forward import KvForward
from edgedec.backends.onnx.kv_memory import KvMemory
from edgedec.backends.onnx.passes import Fed, OnnxPasses
from edgedec.core.forward import Capabilities
from edgedec.core.model_spec import ModelSpec
from edgedec.core.rows import LAST_ROW, FloatArray, HeadRows, Rows
from edgedec.memory import PlannedPass


class OnnxForward(KvForward):
    """The ``Forward`` over ``kv``, which ``passes`` read and write; ``OnnxModel.forward`` makes it."""

    def __init__(
        self, passes: OnnxPasses, kv: KvMemory, spec: ModelSpec, caps: Capabilities, weight_bytes: int
    ) -> None:
        super().__init__(kv, spec, caps, weight_bytes)
        self._passes = passes

    def extend(
        self, tokens: Sequence[int], *, parents: Sequence[int] | None = None, rows: Rows = LAST_ROW
    ) -> HeadRows:
        """See ``Forward.extend``.

        Raises BackendError when the runtime fails and BadFileError when logits are not numbers; nothing is
        appended then.
        """
        planned, fed = self._planned(tokens, parents, rows)
        result = self._passes.run(fed)
        self._book.append(planned)
        return result

    def attention(self, tokens: Sequence[int]) -> FloatArray:
        """See ``Forward.attention``; computes no logits."""
        if not self._caps.attention:
            return super().attention(tokens)
        planned, fed = self._planned(tokens, None, Rows(()))
        found = self._passes.attention(fed)
        self._book.append(planned)
        return found

    def _planned(
        self, tokens: Sequence[int], parents: Sequence[int] | None, rows: Rows
    ) -> tuple[PlannedPass, Fed]:
        count = len(tokens)
        self._check_rows(rows)
        check_tokens(tokens, self._caps.max_pass, self._spec.vocab_size)
        planned = self._plan(count, parents)
        chosen = rows.resolve(count)
        lengths = (planned.start,)
        return planned, Fed(
            tokens, planned.positions, planned.parents, lengths, chosen, rows.full, rows.temperature
        )
