"""Compiles grammars in a process of its own, under limits of time and memory: see ``trial``.

The process reads requests and writes answers, each a JSON object on one line of UTF-8:

    {"text": GRAMMAR, "states": NUMBER, "size": TOKENS, "control": {TEXT: ID, ...}}    {"refusal": TEXT}

It ends after ``IDLE_S`` seconds without a request, by SIGALRM. A grammar that takes too long ends it by
SIGPROF, one that takes too much memory by SIGABRT, and one that crashes the compiler as the crash does;
Windows has exit statuses instead.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from edgedec.system import limits

if TYPE_CHECKING:
    from llguidance import LLTokenizer

COMPILE_S = 1.5
"""Longest processor time of a grammar. Schemas that people write take milliseconds."""
GROWTH_BYTES = 128 << 20
"""Memory that the process may take beyond that of the ready one; the compiler's errors need half."""
IDLE_S = 10.0
_BYTES = 256


def main() -> None:
    """Answer requests until the input ends, none comes for a while, or a grammar ends the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the program that started this one
    limits.leave_no_core()
    compiler = _Compiler()
    if (ready := limits.address_space()) is not None:
        with suppress(OSError):  # a Windows without job objects, as Wine is: time is limited all the same
            limits.limit_address_space(ready + GROWTH_BYTES)
    limits.end_when_idle(IDLE_S)
    for line in sys.stdin.buffer:
        limits.end_when_idle(0)
        limits.end_after(COMPILE_S)
        refusal = compiler.refusal(json.loads(line.decode("utf-8", "surrogatepass")))
        limits.end_after(0)
        sys.stdout.buffer.write(json.dumps({"refusal": refusal}).encode() + b"\n")
        sys.stdout.buffer.flush()
        limits.end_when_idle(IDLE_S)


class _Compiler:
    """Compiles grammars for a vocabulary of bytes and control tokens; the others change nothing of it."""

    def __init__(self) -> None:
        from llguidance import _lib  # the package itself imports more, which takes a while

        self._lib = _lib
        self._made: tuple[object, LLTokenizer] | None = None

    def refusal(self, request: Mapping[str, Any]) -> str:
        """Compile a grammar up to the mask of its first token and one step on; say why it cannot be used."""
        vocabulary = self._vocabulary(request["size"], request["control"])
        bounds = self._lib.LLParserLimits(max_lexer_states=request["states"], verbose_errors=False)
        matcher = self._lib.LLMatcher(vocabulary, request["text"], log_level=0, limits=bounds)
        with suppress(ValueError):  # the matcher's state says why
            mask = int.from_bytes(matcher.compute_bitmask(), "little")
            matcher.compute_ff_tokens()
            if mask:
                matcher.consume_token((mask & -mask).bit_length() - 1)
        return str(matcher.get_error())

    def _vocabulary(self, size: int, control: Mapping[str, int]) -> LLTokenizer:
        if self._made is None or self._made[0] != (size, control):
            spelled = _Bytes(size, control)  # it asks for the attributes, not for the class
            made = self._lib.LLTokenizer(spelled, eos_token=[size - 1], slices=[])  # type: ignore[arg-type]
            self._made = (size, dict(control)), made
        return self._made[1]


class _Bytes:
    """The attributes of a tokenizer that ``LLTokenizer`` reads; bytes have ids of no control token."""

    is_tokenizer_wrapper = True

    def __init__(self, size: int, control: Mapping[str, int]) -> None:
        self.tokens = [b""] * size
        free = (at for at in range(size - 1) if at not in set(control.values()))
        for byte, at in zip(range(_BYTES), free, strict=False):
            self.tokens[at] = bytes([byte])
        for text, at in control.items():
            self.tokens[at] = text.encode("utf-8", "surrogatepass")
        self.special_token_ids = sorted({*control.values(), size - 1})
        self.eos_token_id = size - 1
        self.bos_token_id = None
        self._ids = {piece: at for at, piece in enumerate(self.tokens) if len(piece) == 1}

    def __call__(self, text: str) -> list[int]:
        pieces = text.encode() if isinstance(text, str) else text
        return [self._ids[bytes([byte])] for byte in pieces if bytes([byte]) in self._ids]


if __name__ == "__main__":
    main()
