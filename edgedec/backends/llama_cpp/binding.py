"""llama.cpp's C functions, as llama-cpp-python binds them: a model, and caches over it.

Importing this imports llama_cpp, which loads its libraries: do it in a process that may die, or after
``probe`` has found that they work. The rules that calls follow are those of llama.h and of the checks of
llama_batch_allocr: positions of a sequence are consecutive, and sequences that share tokens of a pass share
the tokens before.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from edgedec.core.errors import BackendError
from edgedec.core.rows import FloatArray

NEEDED = (
    "llama_model_load_from_file", "llama_init_from_model", "llama_get_memory", "llama_memory_clear",
    "llama_memory_seq_rm", "llama_memory_seq_cp", "llama_memory_seq_keep", "llama_model_is_recurrent",
    "llama_log_set", "llama_log_callback", "llama_decode", "llama_get_logits_ith",
)  # fmt: skip
"""Functions that older versions lack."""
_BUFFER = re.compile(r"\b(model|KV|RS|output|compute) buffer size *= *([0-9.]+) MiB")
_HOLDS = {"model": "weights", "KV": "kv_cache", "RS": "kv_cache", "output": "scratch", "compute": "scratch"}


def version() -> str:
    """The version of llama-cpp-python."""
    return str(getattr(llama_cpp, "__version__", "unknown"))


def lacks() -> list[str]:
    """Names that this version of llama-cpp-python lacks."""
    fields = getattr(getattr(llama_cpp, "llama_context_params", None), "_fields_", ())
    unified = any(field[0] == "kv_unified" for field in fields)
    return [name for name in NEEDED if not hasattr(llama_cpp, name)] + ([] if unified else ["kv_unified"])


class _Log:
    """Messages of llama.cpp, kept: they state its buffers, and why it fails."""

    def __init__(self) -> None:
        self._text = ""
        self._callback = llama_cpp.llama_log_callback(self._write)  # C keeps a bare pointer: so do we
        llama_cpp.llama_log_set(self._callback, None)

    def _write(self, level: int, text: bytes, data: Any) -> None:
        self._text = (self._text + text.decode("utf-8", errors="replace"))[-(1 << 18) :]

    def clear(self) -> None:
        self._text = ""

    def buffers(self) -> dict[str, int]:
        """Bytes by holder, as far as the log tells."""
        found: dict[str, int] = {}
        for kind, mebibytes in _BUFFER.findall(self._text):
            found[_HOLDS[kind]] = found.get(_HOLDS[kind], 0) + round(float(mebibytes) * (1 << 20))
        return found

    def complaint(self) -> str:
        """The first line about an error, or the last line."""
        lines = [line.strip() for line in self._text.split("\n") if line.strip(" .")]
        wrong = [line for line in lines if "error" in line.lower() or "failed" in line.lower()]
        return (wrong or lines[-1:] or ["it does not say why"])[0][:300]


_log: _Log | None = None


def _listen() -> _Log:
    global _log
    if _log is None:
        _log = _Log()
        llama_cpp.llama_backend_init()
    _log.clear()
    return _log


class LlamaModel:
    """The GGUF file ``path``, loaded. Raises BackendError when llama.cpp refuses it."""

    def __init__(self, path: Path) -> None:
        log = _listen()
        self.name = path.name
        self.pointer = llama_cpp.llama_model_load_from_file(str(path).encode(), _model_params())
        if not self.pointer:
            raise BackendError(f"llama.cpp cannot load {path.name}: {log.complaint()}")
        weakref.finalize(self, llama_cpp.llama_model_free, self.pointer)
        stateful = bool(llama_cpp.llama_model_is_recurrent(self.pointer)) or self._says("is_hybrid")
        self.rewinds = not stateful
        self.vocab_size = int(llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.pointer)))
        self.buffers = log.buffers()
        """Bytes by purpose, as far as the log tells."""

    @property
    def weight_bytes(self) -> int:
        """Bytes of the weights: as the log counts them, or as the file has them."""
        return self.buffers.get("weights") or int(llama_cpp.llama_model_size(self.pointer))

    def facts(self) -> dict[str, Any]:
        """Sizes as llama.cpp read them, and whether the model generates text from left to right."""
        model = self.pointer
        return {
            "vocab": self.vocab_size,
            "layers": int(llama_cpp.llama_model_n_layer(model)),
            "heads": int(llama_cpp.llama_model_n_head(model)),
            "kv_heads": int(llama_cpp.llama_model_n_head_kv(model)),
            "hidden": int(llama_cpp.llama_model_n_embd(model)),
            "context": int(llama_cpp.llama_model_n_ctx_train(model)),
            "generates": not (self._says("has_encoder") or self._says("is_diffusion")),
        }

    def _says(self, question: str) -> bool:
        """The answer of a function of newer versions about the model; False without that function."""
        ask = getattr(llama_cpp, f"llama_model_{question}", None)
        return bool(ask and ask(self.pointer))


class LlamaCpp:
    """The batches of ``model``, and its cache: one with room for at least ``cells`` tokens.

    ``batch``: most tokens of a pass; ``sequences``: most leaves of a tree. Raises BackendError when llama.cpp
    cannot make the cache.
    """

    def __init__(self, model: LlamaModel, *, threads: int, cells: int, batch: int, sequences: int) -> None:
        log = _listen()
        self._model = model  # outlives the context, which points to it
        self.rewinds = model.rewinds
        most = sequences if self.rewinds else 1  # each has a state of its own there
        self._context = llama_cpp.llama_init_from_model(
            model.pointer, _context_params(threads, cells, batch, most)
        )
        if not self._context:
            raise BackendError(f"llama.cpp cannot run {model.name}: {log.complaint()}")
        weakref.finalize(self, llama_cpp.llama_free, self._context)  # runs before the model's
        self._memory = llama_cpp.llama_get_memory(self._context)
        self._buffers = log.buffers()
        self.vocab_size = model.vocab_size
        self._batch = _Batch(batch, most)

    def decode(
        self,
        tokens: Sequence[int],
        positions: Sequence[int],
        sequences: Sequence[Sequence[int]],
        wanted: Sequence[int],
    ) -> FloatArray:
        """Run a pass; logits f32[len(wanted), V] after the tokens of these indices. Raises BackendError."""
        status = llama_cpp.llama_decode(
            self._context, self._batch.filled(tokens, positions, sequences, wanted)
        )
        if status:
            raise BackendError(f"llama.cpp failed in a pass over {len(tokens)} tokens (status {status})")
        rows = np.empty((len(wanted), self.vocab_size), dtype=np.float32)
        for row, index in zip(rows, wanted, strict=True):
            pointer = llama_cpp.llama_get_logits_ith(self._context, index)
            if not pointer:
                raise BackendError("llama.cpp returned no logits: the model is none that generates text")
            row[:] = np.ctypeslib.as_array(pointer, (self.vocab_size,))
        return rows

    def copy(self, source: int, target: int) -> None:
        """Let the tokens of sequence ``source`` belong to ``target`` too."""
        llama_cpp.llama_memory_seq_cp(self._memory, source, target, -1, -1)

    def keep(self, sequence: int) -> None:
        """Forget every other sequence."""
        llama_cpp.llama_memory_seq_keep(self._memory, sequence)

    def cut(self, sequence: int, length: int) -> bool:
        """Forget the sequence's tokens from position ``length`` on; False where that is impossible."""
        return bool(llama_cpp.llama_memory_seq_rm(self._memory, sequence, length, -1))

    def clear(self) -> None:
        """Forget everything."""
        llama_cpp.llama_memory_clear(self._memory, False)

    def nbytes(self) -> dict[str, int]:
        """Bytes held, as ``KvCache.nbytes``."""
        return {"weights": self._model.weight_bytes, "kv_cache": 0, **self._buffers}


class _Batch:
    """llama_batch: arrays in C that every pass fills anew."""

    def __init__(self, tokens: int, sequences: int) -> None:
        self._batch = llama_cpp.llama_batch_init(tokens, 0, sequences)
        weakref.finalize(self, llama_cpp.llama_batch_free, self._batch)
        self._token, self._pos, self._counts, self._logits = (
            np.ctypeslib.as_array(pointer, (tokens,))
            for pointer in (self._batch.token, self._batch.pos, self._batch.n_seq_id, self._batch.logits)
        )
        self._sequences: list[NDArray[np.int32]] = [
            np.ctypeslib.as_array(self._batch.seq_id[index], (sequences,)) for index in range(tokens)
        ]

    def filled(
        self,
        tokens: Sequence[int],
        positions: Sequence[int],
        sequences: Sequence[Sequence[int]],
        wanted: Sequence[int],
    ) -> Any:
        count = len(tokens)
        self._batch.n_tokens = count
        self._token[:count] = tokens
        self._pos[:count] = positions
        self._logits[:count] = 0
        self._logits[list(wanted)] = 1
        for index, members in enumerate(sequences):
            self._counts[index] = len(members)
            self._sequences[index][: len(members)] = members
        return self._batch


def _model_params() -> Any:
    params = llama_cpp.llama_model_default_params()
    params.n_gpu_layers = 0
    return params


def _context_params(threads: int, cells: int, batch: int, sequences: int) -> Any:
    params = llama_cpp.llama_context_default_params()
    params.n_ctx = max(cells, batch)  # a smaller one lowers other limits, against which it then asserts
    params.n_batch = params.n_ubatch = batch
    params.n_seq_max = sequences
    params.n_threads = params.n_threads_batch = threads
    params.kv_unified = True  # sequences share cells, and the room for them
    params.swa_full = True  # a cache of a window's size alone could not be rewound
    if hasattr(params, "n_outputs_max_per_seq"):
        params.n_outputs_max_per_seq = 0  # as many as a pass has
    return params
