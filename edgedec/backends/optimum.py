"""A bundle made with optimum, run by ONNX Runtime alone: standard ops in float32, and a cache that every pass
copies.

It runs no trees, for its mask is one of tokens, not of pairs of tokens; and a token's results differ in their
last bits between passes, where the runtime adds up in another order.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from edgedec.backends.backend import DEFAULT_CACHE, Backend
from edgedec.backends.cache_forward import CacheForward
from edgedec.backends.head_rows import check_finite
from edgedec.backends.onnx.session import one_line_errors, open_standard_session
from edgedec.bundle.manifest import MODEL, WEIGHTS, Manifest
from edgedec.core.cache_config import CacheConfig
from edgedec.core.errors import BadFileError, UnsupportedError
from edgedec.core.forward import Capabilities, Forward
from edgedec.core.ledger import Ledger
from edgedec.core.rows import LAST_ROW, HeadRows, Parents, Rows
from edgedec.memory import CacheBook

MAX_PASS_TOKENS = 128
"""Such a graph computes the logits of every token of a pass, wanted or not."""
_HEAD = ("values", "ids", "logsumexp", "entropy")
_MOST_WIDTH = 1 << 24
_OPTIONAL = ("attention_mask", "position_ids")
_AGAIN = "verify the bundle, or export the model again"


class DecoderModel(Backend):
    """The ``Backend`` of a decoder in standard ops, as ``edgedec.export.optimum`` writes it.

    Inputs: ``input_ids`` i64[1,T], ``rows`` i64[R], ``past_key_values.N.key`` and ``.value`` f32[1,H,P,D];
    where the graph asks for them, ``attention_mask`` i64[1,P+T] and ``position_ids`` i64[1,T]. Outputs:
    ``present.N.key`` and ``.value`` f32[1,H,P+T,D], and those of ``HeadRows`` for ``rows``. Arguments and
    errors are those of ``OnnxModel``; BadFileError also for a graph that is not as described here.
    """

    def __init__(
        self,
        bundle: Path,
        manifest: Manifest,
        *,
        threads: int | None = None,
        spin: bool = True,
        drafting: bool = False,
    ) -> None:
        caps = Capabilities(max_pass=MAX_PASS_TOKENS, trees=False, exact=False)
        super().__init__(manifest.spec, caps, threads)
        self.weight_bytes = manifest.files[WEIGHTS].bytes
        self._session = open_standard_session(bundle, threads, spin=spin)
        self._inputs = self._checked_inputs()

    @staticmethod
    def runtime_name() -> str:
        """See ``BackendClass.runtime_name``."""
        return "onnxruntime"

    def forward(self, cache: CacheConfig = DEFAULT_CACHE, ledger: Ledger | None = None) -> DecoderForward:
        """See ``Backend.forward``."""
        capacity, _, caps = self._limits(cache)
        book = CacheBook(capacity)
        return DecoderForward(self, self._session, self._inputs, caps, book, ledger)

    def _checked_inputs(self) -> set[str]:
        """The names of the graph's inputs. Raises BadFileError unless they and its outputs are as above."""
        with one_line_errors(loading=True):
            inputs = {node.name: (node.type, node.shape) for node in self._session.get_inputs()}
            outputs = {node.name: (node.type, node.shape) for node in self._session.get_outputs()}
        spec, floats, whole = self.spec, "tensor(float)", "tensor(int64)"
        # The sizes are the manifest's word until the graph agrees: nothing of their number is made before.
        if spec.n_layers > len(inputs) or spec.n_kv_heads * spec.head_dim > _MOST_WIDTH:
            raise _another_model()
        past, present = _cache_names(spec.n_layers)
        stated = {"input_ids": whole, "rows": whole, **dict.fromkeys((*_HEAD, "logits"), floats)}
        stated |= {"ids": "tensor(int32)", **dict.fromkeys((*past, *present), floats)}
        stated |= {name: whole for name in _OPTIONAL if name in inputs}
        types = {name: kind for name, (kind, _) in (inputs | outputs).items()}
        shapes = [inputs[name][1] for name in past if name in inputs]
        sizes = {(*shape[1:2], *shape[3:]) for shape in shapes}
        if types != stated or sizes != {(spec.n_kv_heads, spec.head_dim)}:
            raise _another_model()
        return set(inputs)


class DecoderForward(CacheForward, Forward):
    """The ``Forward`` over a ``DecoderModel``. Every pass copies its cache."""

    def __init__(
        self,
        model: DecoderModel,
        session: ort.InferenceSession,
        inputs: set[str],
        caps: Capabilities,
        book: CacheBook,
        ledger: Ledger | None,
    ) -> None:
        super().__init__(model.spec, caps, book, ledger)
        self._weight_bytes = model.weight_bytes
        self._session = session
        self._inputs = inputs
        self._past, self._present = _cache_names(self.spec.n_layers)
        self._options = ort.RunOptions()
        # Without head results there is no need of the head: most of a prompt's passes skip it.
        self._options.only_execute_path_to_fetches = True
        self._held: list[ort.OrtValue] = []
        """Keys and values as the last pass left them: of more than ``length`` tokens after a rewind."""

    def extend(self, tokens: Sequence[int], *, parents: Parents = None, rows: Rows = LAST_ROW) -> HeadRows:
        """See ``Forward.extend``; raises as ``OnnxForward.extend`` does, and appends nothing then."""
        planned = self._placed(tokens, parents, rows)
        if not planned.chain:
            raise UnsupportedError(
                f"{self.spec.name} cannot run a tree of tokens",
                hint="it was exported with optimum; models that EdgeDec builds itself can",
            )
        chosen = np.array(rows.resolve(len(tokens)), dtype=np.int64)
        with one_line_errors():
            result, self._held = self._run(tokens, chosen, rows.full)
        self._book.append(planned)
        return result

    def keep_path(self, nodes: Sequence[int]) -> None:
        """See ``Forward.keep_path``. A path of a chain is a beginning of it: nothing has to move."""
        self._book.keep(nodes)

    def nbytes(self) -> dict[str, int]:
        """``weights``: those of the file, mapped or copied; ``kv_cache``: held now, it grows with use."""
        held = sum(4 * int(np.prod(value.shape())) for value in self._held)
        return {"weights": self._weight_bytes, "kv_cache": held}

    def _run(
        self, tokens: Sequence[int], rows: NDArray[np.int64], full: bool
    ) -> tuple[HeadRows, list[ort.OrtValue]]:
        wanted = [] if not rows.size else [*_HEAD, "logits"] if full else [*_HEAD]
        out = self._session.run_with_ort_values(
            wanted + self._present, self._feeds(tokens, rows), self._options
        )
        present = out[len(wanted) :]
        if any(value.shape() != self._cache_shape(self.length + len(tokens)) for value in present):
            raise _another_model()
        return self._head([np.array(value.numpy()) for value in out[: len(wanted)]], rows.size, full), present

    def _feeds(self, tokens: Sequence[int], rows: NDArray[np.int64]) -> dict[str, ort.OrtValue]:
        start, end = self.length, self.length + len(tokens)
        values = {
            "input_ids": np.array([tokens], dtype=np.int64),
            "rows": rows,
            "attention_mask": np.ones((1, end), dtype=np.int64),
            "position_ids": np.arange(start, end, dtype=np.int64)[np.newaxis],
        }
        feeds = {name: _value(array) for name, array in values.items() if name in self._inputs}
        return feeds | dict(zip(self._past, self._resident(), strict=True))

    def _resident(self) -> list[ort.OrtValue]:
        """Keys and values of exactly ``length`` tokens."""
        if not self.length:
            return [_value(np.empty(self._cache_shape(0), dtype=np.float32))] * len(self._past)
        if self._held[0].shape()[2] > self.length:
            self._held = [
                _value(np.ascontiguousarray(value.numpy()[:, :, : self.length])) for value in self._held
            ]
        return self._held

    def _cache_shape(self, length: int) -> list[int]:
        return [1, self.spec.n_kv_heads, length, self.spec.head_dim]

    def _head(self, results: list[NDArray[Any]], rows: int, full: bool) -> HeadRows:
        """``results`` in the order of ``_HEAD``, then logits if ``full``: none of them for no rows."""
        k, vocab = self.spec.head_k, self.spec.vocab_size
        shapes = [(rows, k), (rows, k), (rows,), (rows,), *([(rows, vocab)] if full else [])]
        if not rows:
            types = (np.float32, np.int32, np.float32, np.float32, np.float32)
            results = [np.empty(shape, dtype=kind) for shape, kind in zip(shapes, types, strict=False)]
        if [result.shape for result in results] != shapes:
            raise _another_model()
        values, ids, logsumexp, entropy, *logits = results
        head = HeadRows(values, ids, logsumexp, entropy, logits[0] if full else None)
        check_finite(head.logsumexp)
        if ((head.ids < 0) | (head.ids >= vocab)).any():
            raise _another_model()
        return head


def _cache_names(layers: int) -> tuple[list[str], list[str]]:
    """Names of the cache inputs and outputs, in the same order."""
    parts = [f"{layer}.{part}" for layer in range(layers) for part in ("key", "value")]
    return [f"past_key_values.{part}" for part in parts], [f"present.{part}" for part in parts]


def _value(array: NDArray[Any]) -> ort.OrtValue:
    return ort.OrtValue.ortvalue_from_numpy(array)


def _another_model() -> BadFileError:
    return BadFileError(f"{MODEL} of the bundle is not the model that its manifest describes", hint=_AGAIN)
