"""A model with given replies, a real tokenizer and a template; it records the tokens it is fed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from edgedec.backends.cache_forward import CacheForward
from edgedec.bundle.model_id import ModelId
from edgedec.core.errors import ContextFullError
from edgedec.core.forward import Capabilities
from edgedec.core.model_spec import ModelSpec
from edgedec.core.rows import LAST_ROW, HeadRows, Rows
from edgedec.export.tokenizer import build_tokenizer
from edgedec.memory import CacheBook
from edgedec.text.codec import Codec
from edgedec.text.template import ChatTemplate
from edgedec.text.tokenizer import Tokenizer
from tests.fixtures.ready import Ready, ready_of
from tests.fixtures.tiny_vocab import BPE_SPECIALS, CHATML, bpe_pieces

START, END = 1, 2
CAPACITY = 400

Speak = Callable[[list[int]], int]
"""Everything the model has been fed -> the token it says next."""


def make_tokenizer(directory: Path, marks: Sequence[str] = ()) -> Tokenizer:
    """The byte-level tokenizer of the tiny models; ``directory`` gets its file. ``marks``: control tokens."""
    pieces, merges = bpe_pieces()
    text, info = build_tokenizer(
        {
            "tokenizer.ggml.model": "gpt2",
            "tokenizer.ggml.pre": "smollm",
            "tokenizer.ggml.tokens": [*BPE_SPECIALS, *pieces, *marks],
            "tokenizer.ggml.token_type": [3] * len(BPE_SPECIALS) + [1] * len(pieces) + [3] * len(marks),
            "tokenizer.ggml.merges": merges,
            "tokenizer.ggml.bos_token_id": START,
            "tokenizer.ggml.eos_token_id": END,
            "tokenizer.ggml.add_bos_token": False,
            "tokenizer.chat_template": CHATML,
        }
    )
    (directory / "tokenizer.json").write_text(text, encoding="utf-8")
    return Tokenizer.load(directory, info)


class Parrot(CacheForward):
    """A Forward whose next token is ``speak(all tokens so far)``; ``passes`` lists the tokens it was fed."""

    def __init__(self, speak: Speak, vocab_size: int, capacity: int = CAPACITY) -> None:
        spec = ModelSpec("parrot", "llama", vocab_size, 1, 1, 1, 2, 2, 1000, START, (END,), head_k=4)
        caps = Capabilities(max_pass=64, trees=False, exact=True)
        super().__init__(spec, caps, CacheBook(capacity))
        self.cache: list[int] = []
        self.passes: list[list[int]] = []
        self.before_pass: Callable[[], None] = lambda: None
        self._speak = speak

    @property
    def length(self) -> int:
        return len(self.cache)

    def extend(
        self, tokens: Sequence[int], *, parents: Sequence[int] | None = None, rows: Rows = LAST_ROW
    ) -> HeadRows:
        self.before_pass()
        assert parents is None
        assert 0 < len(tokens) <= self.caps.max_pass
        if self.length + len(tokens) > self.capacity:
            raise ContextFullError("the context is full")
        start = self.length
        self.cache += list(tokens)
        self.passes.append(list(tokens))
        chosen = [self._speak(self.cache[: start + int(row) + 1]) for row in rows.resolve(len(tokens))]
        return self._rows(chosen, rows.full)

    def reachable(self, length: int) -> int:
        return length

    def rewind(self, length: int) -> None:
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot rewind to {length}")
        del self.cache[length:]

    def keep_path(self, nodes: Sequence[int]) -> None:
        raise AssertionError("a parrot has no trees")

    def nbytes(self) -> dict[str, int]:
        return {"weights": 1000, "kv_cache": 8 * self.capacity}

    def _rows(self, chosen: list[int], full: bool) -> HeadRows:
        logits = np.zeros((len(chosen), self.spec.vocab_size), dtype=np.float32)
        logits[np.arange(len(chosen)), chosen] = 100.0
        ids = np.argsort(-logits, axis=1, kind="stable")[:, : self.spec.head_k].astype(np.int32)
        values = np.take_along_axis(logits, ids.astype(np.int64), axis=1)
        zeros = np.zeros(len(chosen), dtype=np.float32)
        return HeadRows(values, ids, zeros + 100.0, zeros, logits if full else None)


def saying(tokenizer: Tokenizer, *replies: str | Sequence[int]) -> Speak:
    """In a chat: the n-th reply for the n-th generation prompt, then the end token; ids as they are."""
    opening = [START, *tokenizer.encode("assistant\n", add_bos=False)]
    said = [
        tokenizer.encode(reply, add_bos=False) if isinstance(reply, str) else [*reply] for reply in replies
    ]

    def speak(context: list[int]) -> int:
        starts = [at for at in range(len(context)) if context[at : at + len(opening)] == opening]
        if not starts:
            return END
        reply = said[len(starts) - 1]
        so_far = context[starts[-1] + len(opening) :]
        return [*reply, END][len(so_far)] if so_far == reply[: len(so_far)] else END

    return speak


def load_parrot(
    directory: Path,
    *replies: str | Sequence[int],
    chat: bool = True,
    speak: Speak | None = None,
    capacity: int = CAPACITY,
) -> Ready:
    """A parrot as the command line gets it."""
    tokenizer = make_tokenizer(directory)
    vocab_size = len(BPE_SPECIALS) + len(bpe_pieces()[0])
    forward = Parrot(speak or saying(tokenizer, *replies), vocab_size, capacity)
    template = ChatTemplate(CHATML, bos="<|im_start|>", eos="<|im_end|>") if chat else None
    return ready_of(forward, codec_of(tokenizer, template))


def codec_of(tokenizer: Tokenizer, template: ChatTemplate | None = None) -> Codec:
    return Codec(tokenizer, template, ModelId("parrot", "0" * 64))
