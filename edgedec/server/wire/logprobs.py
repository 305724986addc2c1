"""Log-probabilities of tokens in OpenAI's forms, for chats and for completions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from edgedec.server.work.request import TracedToken
from edgedec.session.token_logprob import TokenLogprob


def content_logprobs(tokens: Iterable[TracedToken], most: int) -> list[dict[str, Any]]:
    """Return the log-probabilities of a chat's tokens, with ``most`` alternatives each."""
    found = [one.logprob for one in tokens if one.logprob is not None]
    return [{**_token(one), "top_logprobs": [_token(other) for other in one.top[:most]]} for one in found]


def text_logprobs(tokens: Iterable[TracedToken], offset: int, most: int) -> dict[str, Any]:
    """Return the log-probabilities of a completion's tokens; the first is at ``offset`` in the text.

    A part of a character is named by its bytes. It is at the place of the character, which its last part adds
    to the text.
    """
    names, tops, logprobs, offsets = [], [], [], []
    for traced in tokens:
        if (one := traced.logprob) is not None:
            top = _named(one.top[:most])
            names.append(next((name for name, other in top.items() if other.token == one.token), _name(one)))
            tops.append({name: other.logprob for name, other in top.items()})
            logprobs.append(one.logprob)
            offsets.append(offset)
        offset += len(traced.text)
    return {"tokens": names, "token_logprobs": logprobs, "top_logprobs": tops, "text_offset": offsets}


def _named(tokens: Iterable[TokenLogprob]) -> dict[str, TokenLogprob]:
    """Return tokens by their names; one whose name another has, by its id."""
    found: dict[str, TokenLogprob] = {}
    for one in tokens:
        name = _name(one)
        found[f"token_id:{one.token}" if name in found else name] = one
    return found


def _name(one: TokenLogprob) -> str:
    if one.text.encode() == one.raw:
        return one.text
    return "bytes:" + "".join(f"\\x{byte:02x}" for byte in one.raw)


def _token(one: TokenLogprob) -> dict[str, Any]:
    return {"token": one.text, "logprob": one.logprob, "bytes": list(one.raw)}
