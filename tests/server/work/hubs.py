"""Servers of tiny models, and the replies that the models give alone."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from edgedec import api
from edgedec.api import Model
from edgedec.assemble.config import RunConfig
from edgedec.assemble.prepare import Bundles
from edgedec.models import Store
from edgedec.server.work.hub import Hub
from edgedec.server.work.request import Ended, GenerationRequest, Piece, QueueLimits, TracedToken, Usage
from edgedec.server.work.ticket import Ticket
from edgedec.session.prompt import Message
from edgedec.session.reply import Reply
from tests.fixtures.tiny_models import tiny_bundle

CONTEXT = 512
PLAIN = RunConfig(threads=1, draft="off", context=CONTEXT, conversations=3)


def store_of(folder: Path, **architectures: str) -> Store:
    """A store with tiny models, by name and architecture."""
    for name, architecture in architectures.items():
        target = folder / "home" / "models" / name
        if not target.exists():
            (folder / "bundles").mkdir(exist_ok=True)
            shutil.copytree(tiny_bundle(folder / "bundles", architecture), target)
    return Store(folder / "home")


def hub_of(store: Store, *names: str, config: RunConfig = PLAIN, limits: QueueLimits | None = None) -> Hub:
    return Hub(names or ("tiny",), config, store=store, limits=limits)


def user(text: str) -> tuple[Message, ...]:
    return (Message("user", text),)


@dataclass
class Got:
    """One sample, as its events tell it."""

    text: str = ""
    tokens: list[TracedToken] = field(default_factory=list)
    reason: str = ""
    usage: Usage = Usage()  # noqa: RUF009

    @property
    def ids(self) -> list[int]:
        return [token.id for token in self.tokens]


def gathered(ticket: Ticket | Iterable[Piece | Ended]) -> dict[int, Got]:
    """All samples of a request, read to its end."""
    found: dict[int, Got] = {}
    for event in ticket:
        sample = found.setdefault(event.sample, Got())
        assert not sample.reason, "an event behind the end"
        if isinstance(event, Piece):
            sample.text += event.text
            sample.tokens += event.tokens
        else:
            sample.reason, sample.usage = event.reason, event.usage
    assert all(sample.reason for sample in found.values())
    return found


def only(ticket: Ticket) -> Got:
    """The one sample of a request."""
    (sample,) = gathered(ticket).values()
    return sample


class Alone:
    """One model of a store, for one reply at a time."""

    def __init__(self, store: Store, name: str = "tiny") -> None:
        self.model: Model = api.open(
            Bundles(store.path(name)), RunConfig(threads=1, draft="off", context=CONTEXT), store=store
        )

    def reply(self, request: GenerationRequest, sample: int = 0) -> Reply:
        """The reply to a request, which is no continuation of one."""
        params = request.sampling.over(self.model.sampling)
        params = replace(params, seed=params.seed + sample)
        how = {"sampling": params, "max_tokens": request.max_tokens, "stop": request.stop}
        if request.text is not None:
            reply = self.model.complete(request.text, logprobs=request.logprobs, **how)  # type: ignore[arg-type]
        else:
            chat = self.model.chat(messages=request.messages, **how)  # type: ignore[arg-type]
            reply = chat.reply(logprobs=request.logprobs, final=True)
        reply.read()
        return reply


def same(got: Got, reply: Reply) -> None:
    """Whether a sample is the reply alone: text, tokens and reason."""
    assert (got.text, got.ids, got.reason) == (reply.text, reply.text_tokens, reply.finish_reason)
