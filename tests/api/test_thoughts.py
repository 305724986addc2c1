"""A limit on thoughts of a whole model: alone, in a batch and drafted, the same tokens."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgedec.sampling import DrawParams
from tests.api.opening import opened

TEMPLATE = "{% for m in messages %}{{ m.content }} {% endfor %}{# </think> #}<think>"
TEXTS = ["hello", "the world", "hello hello hello hello", "a", "is it?"]
CLOSING = "\n\nI have thought enough, and answer now.\n</think>\n\n"


@pytest.mark.parametrize("params", [DrawParams(), DrawParams(temperature=1.0, seed=4)])
@pytest.mark.parametrize("limit", [0, 6])
def test_drafts_and_batches_change_no_token(
    bundle: Path, tmp_path: Path, params: DrawParams, limit: int
) -> None:
    given = {"template": TEMPLATE, "think_tokens": limit}
    alone: list[tuple[str, list[int]]] = []
    with opened(bundle, tmp_path, **given) as model:
        for text in TEXTS:
            reply = model.chat(sampling=params, max_tokens=90).reply(text)
            alone.append((reply.read(), reply.tokens))
            assert CLOSING in reply.text
            assert (reply.stats.thought_tokens, reply.stats.thought_closed) == (limit, True)
    with opened(bundle, tmp_path, template=TEMPLATE) as model:
        free = model.chat(sampling=params, max_tokens=90).reply(TEXTS[0])
        free.read()
        assert free.tokens[:limit] == alone[0][1][:limit]
    for draft in ("lookup", "lookup,recycling"):
        with opened(bundle, tmp_path, draft=draft, **given) as model:
            for text, (words, tokens) in zip(TEXTS, alone, strict=True):
                reply = model.chat(sampling=params, max_tokens=90).reply(text)
                assert (reply.read(), reply.tokens) == (words, tokens)
    with (
        opened(bundle, tmp_path, conversations=3, draft="lookup", **given) as several,
        several.conversations(sampling=params, max_tokens=90) as chats,
    ):
        answers = list(chats.answers(TEXTS))
    assert [(one.reply.text, one.reply.tokens) for one in answers if one.reply] == alone
