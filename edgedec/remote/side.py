"""``RemoteSide``: a model of a server as the large side of a conversation."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import field
from typing import Any, Self

import httpx
from httpx_sse import EventSource

from edgedec.core.errors import one_line
from edgedec.core.quick_dataclass import dataclass
from edgedec.remote.address import ServerAddress
from edgedec.remote.completions import DONE, AskedPassage, Endpoint, ModelList, NoCompletion, TextPiece
from edgedec.remote.continuing import NoEcho, NoKey, Repeats
from edgedec.remote.reach import check_reachable
from edgedec.remote.transfer import WAITING, NotOffered, RemoteLimits, RemoteRequest, ServerRefusal, Transfer
from edgedec.sampling import DrawParams
from edgedec.text.passage import Passage

_EVENT_BYTES, _OTHER_BYTES = 4096, 1 << 16
"""Bytes of an answer: the most for each token, and for all else."""
_MOST_PIECES_PER_TOKEN, _OTHER_PIECES = 4, 16
_MOST_TOKENS = 1 << 17
"""Tokens of a reply whose length nothing limits."""
_LIST_BYTES = 1 << 20


@dataclass(slots=True)
class RemoteSide:
    """Begins and continues replies with a model behind an OpenAI-compatible server; a ``TextSide``.

    ``model`` None: the only one that the server has. ``chat``: ask for messages alone, where the server
    continues no texts. The list of models costs a request, once, where it is needed: for the model's name, or
    to learn how the server continues a reply.
    """

    address: ServerAddress
    model: str | None = None
    limits: RemoteLimits = field(default_factory=RemoteLimits)
    chat: bool = False
    ended: bool = field(default=False, init=False)
    """Whether the last reply came to its own end."""
    _transfer: Transfer = field(init=False, repr=False)
    _models: ModelList | None = field(default=None, init=False, repr=False)
    _texts_only: bool = field(default=False, init=False, repr=False)
    """Whether the server refused messages."""

    def __post_init__(self) -> None:
        self._transfer = Transfer(self.address, self.limits)

    @property
    def name(self) -> str:
        """The model and its host, for the user."""
        return one_line(f"{self.model or 'the model'} at {self.address.host}")

    def check_reachable(self) -> None:
        """Raise SideLost if there is no connection to the server; nothing is sent."""
        check_reachable(self.address, self.limits.connect_s)

    def continued(self, passage: Passage, most_tokens: int, params: DrawParams) -> Generator[str]:
        """Yield pieces of the text behind ``passage``, of up to ``most_tokens`` tokens of the server's.

        It is told the temperature, top-p and seed of ``params``, and draws tokens in its own way.
        Pieces are empty while the server is waited for. Afterwards ``ended`` says whether the reply came to
        its own end. Raises SideLost, between pieces too; those before it stand. A caller that has enough
        closes the iterator, which ends the request.
        """
        fields = {"seed": params.seed, "temperature": params.temperature, "top_p": params.top_p}
        return self.answered(passage, most_tokens, fields)

    def answered(
        self, passage: Passage, most_tokens: int | None, fields: Mapping[str, Any]
    ) -> Generator[str]:
        """Yield pieces as ``continued`` does, drawn as ``fields`` of the request say and no others.

        ``most_tokens`` None: as long as the server lets a reply be.
        """
        self.ended = False
        fields = fields if most_tokens is None else {**fields, "max_tokens": most_tokens}
        self.model = self.model or (yield from self._only_model())
        as_text = Passage(passage.text)
        passage = as_text if self._texts_only else passage
        owner = (yield from self._owner()) if passage.turns and passage.reply else ""
        asked = AskedPassage.of(passage, owner, chat=self.chat)
        try:
            yield from self._answer(asked, self.model, fields)
        except NotOffered:
            if self.chat or not asked.chat:
                raise
            self._texts_only = True
            yield from self._answer(AskedPassage.of(as_text, "", chat=False), self.model, fields)

    def _answer(self, question: AskedPassage, model: str, fields: Mapping[str, Any]) -> Generator[str]:
        most_tokens = int(fields.get("max_tokens", _MOST_TOKENS))
        endpoint = Endpoint(model, question.chat)
        most_bytes = _OTHER_BYTES + _EVENT_BYTES * most_tokens
        body = endpoint.body(question, fields)
        request = RemoteRequest(endpoint.path, body, "text/event-stream", most_bytes)
        left = _OTHER_PIECES + _MOST_PIECES_PER_TOKEN * most_tokens
        echo, secret = NoEcho(question.before), NoKey(self.address)
        pieces = self._transfer.pieces(request, lambda answer: self._completion(endpoint, answer))
        try:
            for piece in pieces:
                if piece is WAITING:
                    yield ""
                    continue
                left -= bool(piece.text)
                if left < 0:
                    raise self._transfer.lost("sends more than was asked for")
                if passed := echo.passed(secret.passed(piece.text)):
                    yield passed
                self.ended = piece.finish == "stop"
        except Repeats as error:
            raise self._transfer.lost("repeats the text instead of continuing it") from error
        finally:
            pieces.close()
        if rest := echo.rest() + secret.rest():
            yield rest

    def _only_model(self) -> Generator[str, None, str]:
        self._models = yield from self._listed()
        try:
            return self._models.only()
        except NoCompletion as error:
            raise self._transfer.lost(f"has {error}") from error

    def _owner(self) -> Generator[str, None, str]:
        """Return the server's name for who runs its models; empty where it lists none."""
        if self._models is None:
            try:
                self._models = yield from self._listed()
            except ServerRefusal:
                self._models = ModelList()
        return self._models.owner

    def _listed(self) -> Generator[str, None, ModelList]:
        """Ask for the list of models; yields as ``continued`` does while it waits."""
        request = RemoteRequest("/models", None, "application/json", _LIST_BYTES)

        def read(answer: httpx.Response) -> Iterator[ModelList]:
            answer.read()
            yield ModelList.of(answer.text, self.address.without_key)

        found = ModelList()
        for piece in self._transfer.pieces(request, read):
            if piece is WAITING:
                yield ""
            else:
                found = piece
        return found

    def _completion(self, endpoint: Endpoint, answer: httpx.Response) -> Iterator[TextPiece]:
        """Yield the pieces of a stream up to the one that ends it.

        Raises NoCompletion for a stream that ends before.
        """
        begun = False
        for event in EventSource(answer).iter_sse():
            if event.data == DONE:
                break
            if not event.data:
                continue
            begun = True
            if piece := endpoint.read(event.data, self.address.without_key):
                yield piece
                if piece.finish:
                    return
        raise NoCompletion("no end of its reply" if begun else "an empty reply")

    def close(self, wait_s: float = 0.0) -> None:
        """Close connections to the server; see ``Transfer.close``."""
        self._transfer.close(wait_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
