"""Log-probabilities of tokens in OpenAI's forms, for chats and for completions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from edgedec.server.work.request import TracedToken
from edgedec.session.reply import TokenLogprob


def content_logprobs(tokens: Iterable[TracedToken], most: int) -> list[dict[str, Any]]:
    """Return the log-probabilities of a chat's tokens, with ``most`` alternatives each."""
    found = [one.logprob for one in tokens if one.logprob is not None]
    return [{**_token(one), "top_logprobs": [_token(other) for other in one.top[:most]]} for one in found]


def text_logprobs(tokens: Iterable[TracedToken], offset: int, most: int) -> dict[str, Any]:
    """Return the log-probabilities of a completion's tokens; the first is at ``offset`` in the text."""
    found = [one.logprob for one in tokens if one.logprob is not None]
    offsets = []
    for one in found:
        offsets.append(offset)
        offset += len(one.text)
    return {
        "tokens": [one.text for one in found],
        "token_logprobs": [one.logprob for one in found],
        "top_logprobs": [{other.text: other.logprob for other in one.top[:most]} for one in found],
        "text_offset": offsets,
    }


def _token(one: TokenLogprob) -> dict[str, Any]:
    whole = "\ufffd" not in one.text
    return {"token": one.text, "logprob": one.logprob, "bytes": list(one.text.encode()) if whole else None}
