"""llama.cpp as a side of a comparison, through the low-level functions of llama-cpp-python.

It runs with its own defaults, which are its fastest: memory-mapped weights, repacking, automatic flash
attention, and logits for the last token only.
"""

from __future__ import annotations

import time
from typing import Any

import llama_cpp
import numpy as np
from numpy.typing import NDArray

BATCH_TOKENS = 512
NGRAM_TOKENS, NGRAM_DRAFTED_TOKENS = 12, 48
"""Defaults of llama.cpp's own tools: spec-ngram-size-n and spec-ngram-size-m."""
ROWS_BYTES = 64 << 20
"""Most bytes of logits rows in one batch."""


class Peer:
    def open(
        self, model: str, threads: int, context: int, all_rows: bool = False, repack: bool = True
    ) -> dict[str, Any]:
        """Load the GGUF file ``model``. ``logits`` needs a context with ``all_rows``.

        ``repack``: weights are copied into a faster order, as by default.
        """
        self._silence = llama_cpp.llama_log_callback(lambda level, text, data: None)
        llama_cpp.llama_log_set(self._silence, None)
        llama_cpp.llama_backend_init()
        self._model = llama_cpp.llama_model_load_from_file(model.encode(), _model_params(repack))
        if not self._model:
            raise RuntimeError("llama.cpp cannot load the file")
        self._vocab = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self._model))
        self._context = llama_cpp.llama_init_from_model(
            self._model, _context_params(threads, context, all_rows)
        )
        if not self._context:
            raise RuntimeError("llama.cpp cannot make a context")
        self._batch: Any = None
        system = llama_cpp.llama_print_system_info().decode()
        on = [part.split("=")[0].strip(" :") for part in system.split("|") if part.strip().endswith("= 1")]
        return {"version": f"llama-cpp-python {llama_cpp.__version__}", "isa": " ".join(on)}

    def generate(self, tokens: list[int], max_tokens: int) -> dict[str, Any]:
        """Continue greedily by exactly ``max_tokens`` tokens from an empty cache. Times are in seconds."""
        self._clear()
        started = time.perf_counter()
        self._decode(tokens)
        out = [self._best()]
        first = time.perf_counter()
        token = (llama_cpp.llama_token * 1)()
        for _ in range(max_tokens - 1):
            token[0] = out[-1]
            self._run(llama_cpp.llama_batch_get_one(token, 1))
            out.append(self._best())
        return {"prefill_s": first - started, "decode_s": time.perf_counter() - first, "tokens": out}

    def reply(self, tokens: list[int], max_tokens: int, stop: list[int], mode: str) -> dict[str, Any]:
        """Continue greedily from an empty cache until one of ``stop``.

        ``mode``: "off", or "ngram" for drafts as llama.cpp's own tools make them with ngram-simple.
        ``rounds`` of the answer has [drafted tokens, accepted tokens] of each pass.
        """
        self._clear()
        started = time.perf_counter()
        self._decode(tokens)
        ids = np.empty(len(tokens) + max_tokens, dtype=np.intc)
        ids[: len(tokens)] = tokens
        count = len(tokens) + 1
        ids[len(tokens)] = self._best()
        first = time.perf_counter()
        draft_s = verify_s = 0.0
        rounds = []
        while count < len(ids) and int(ids[count - 1]) not in stop:
            began = time.perf_counter()
            guess = (ngram_simple(ids[:count]) if mode == "ngram" else ids[:0])[: len(ids) - count - 1]
            drafted = time.perf_counter()
            found = self._verify(int(ids[count - 1]), guess.tolist(), count - 1, stop)
            draft_s += drafted - began
            verify_s += time.perf_counter() - drafted
            ids[count : count + len(found)] = found
            count += len(found)
            rounds.append([len(guess), len(found) - 1])
        out = ids[len(tokens) : count].tolist()
        took = {"prefill_s": first - started, "decode_s": time.perf_counter() - first}
        return {**took, "tokens": out, "draft_s": draft_s, "verify_s": verify_s, "rounds": rounds}

    def _verify(self, last: int, guess: list[int], position: int, stop: list[int]) -> list[int]:
        """Return the tokens of one pass over ``last`` and a chain of guesses. Wrong ones leave the cache."""
        if not guess:
            token = (llama_cpp.llama_token * 1)(last)
            self._run(llama_cpp.llama_batch_get_one(token, 1))
            return [self._best()]
        if self._batch is None:
            self._batch = llama_cpp.llama_batch_init(BATCH_TOKENS, 0, 1)
        _fill(self._batch, [last, *guess], position)
        self._run(self._batch)
        found: list[int] = []
        for row in range(len(guess) + 1):
            found.append(self._best(row))
            if found[-1] in stop or row == len(guess) or found[-1] != guess[row]:
                break
        if len(found) <= len(guess):
            self._forget(position + len(found))
        return found

    def logits(self, tokens: list[int], path: str) -> dict[str, Any]:
        """Write the logits f32[T, V] after each of ``tokens``, from an empty cache, to the .npy ``path``.

        ``passes`` of the answer has [tokens, filled slots after it] of each pass.
        """
        rows = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(len(tokens), self._vocab))
        step = max(1, min(BATCH_TOKENS, ROWS_BYTES // (4 * self._vocab)))
        batch = llama_cpp.llama_batch_init(step, 0, 1)
        self._clear()
        try:
            for start in range(0, len(tokens), step):
                part = tokens[start : start + step]
                _fill(batch, part, start)
                self._run(batch)
                pointer = llama_cpp.llama_get_logits(self._context)
                rows[start : start + step] = np.ctypeslib.as_array(pointer, (len(part), self._vocab))
        finally:
            llama_cpp.llama_batch_free(batch)
        rows.flush()
        passes = [
            [min(step, len(tokens) - start), min(start + step, len(tokens))]
            for start in range(0, len(tokens), step)
        ]
        return {"shape": list(rows.shape), "passes": passes}

    def fill(self, tokens: list[int]) -> dict[str, Any]:
        """Fill the cache with ``tokens``."""
        self._clear()
        self._decode(tokens)
        self._resident = len(tokens)
        self._batch = llama_cpp.llama_batch_init(BATCH_TOKENS, 0, 1)
        return {}

    def extend(self, tokens: list[int]) -> dict[str, Any]:
        """Time a pass over ``tokens`` after those of ``fill``, with all logits, in s; then remove them."""
        _fill(self._batch, tokens, self._resident)
        started = time.perf_counter()
        self._run(self._batch)
        llama_cpp.llama_synchronize(self._context)
        took = time.perf_counter() - started
        self._forget(self._resident)
        return {"seconds": took}

    def _forget(self, position: int) -> None:
        """Remove the tokens from ``position`` on from the cache."""
        memory = llama_cpp.llama_get_memory(self._context)
        if not llama_cpp.llama_memory_seq_rm(memory, 0, position, -1):
            raise RuntimeError("llama.cpp cannot take tokens back from the cache of this model")

    def _clear(self) -> None:
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self._context), True)

    def _decode(self, tokens: list[int]) -> None:
        for start in range(0, len(tokens), BATCH_TOKENS):
            part = tokens[start : start + BATCH_TOKENS]
            array = (llama_cpp.llama_token * len(part))(*part)  # the batch only points to it
            self._run(llama_cpp.llama_batch_get_one(array, len(part)))

    def _run(self, batch: Any) -> None:
        if status := llama_cpp.llama_decode(self._context, batch):
            raise RuntimeError(f"llama_decode failed with status {status}")

    def _best(self, row: int = -1) -> int:
        pointer = llama_cpp.llama_get_logits_ith(self._context, row)
        return int(np.ctypeslib.as_array(pointer, (self._vocab,)).argmax())


def ngram_simple(
    ids: NDArray[np.intc], size: int = NGRAM_TOKENS, most: int = NGRAM_DRAFTED_TOKENS
) -> NDArray[np.intc]:
    """Return up to ``most`` tokens that followed the latest earlier occurrence of the last ``size`` tokens.

    The rules are those of ngram-simple in llama.cpp's tools: no drafts in texts of at most
    ``size + most + 1`` tokens, none from the very first token, none when fewer than ``size`` tokens followed.
    """
    before = len(ids) - 1  # the newest token is not yet in their history
    none = ids[:0]
    if before <= size + most + 1:
        return none
    pattern = ids[-size:]
    places = np.flatnonzero(ids[1 : before - size] == pattern[0]) + 1
    for place in reversed(places.tolist()):
        if np.array_equal(ids[place : place + size], pattern):
            found = ids[place + size : min(place + size + most, before)]
            return found if len(found) >= size else none
    return none


def _model_params(repack: bool) -> Any:
    params = llama_cpp.llama_model_default_params()
    names = [field[0] for field in params._fields_]
    params.n_gpu_layers = 0
    params.use_extra_bufts = repack
    if "use_mmap" in names:
        params.use_mmap = True
    else:  # newer versions
        params.load_mode = llama_cpp.LLAMA_LOAD_MODE_MMAP
    return params


def _context_params(threads: int, context: int, all_rows: bool) -> Any:
    params = llama_cpp.llama_context_default_params()
    params.n_ctx = context
    params.n_batch = params.n_ubatch = BATCH_TOKENS
    params.n_threads = params.n_threads_batch = threads
    names = [field[0] for field in params._fields_]
    if all_rows and "n_outputs_max_per_seq" in names:
        params.n_outputs_max_per_seq = 0  # all that fit
    return params


def _fill(batch: Any, tokens: list[int], start: int) -> None:
    """Fill a batch with ``tokens`` at positions from ``start`` on, with logits for every one."""
    batch.n_tokens = len(tokens)
    for index, token in enumerate(tokens):
        batch.token[index] = token
        batch.pos[index] = start + index
        batch.n_seq_id[index] = 1
        batch.seq_id[index][0] = 0
        batch.logits[index] = 1
