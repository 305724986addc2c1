"""Models that take turns on one reply. Each writes a stretch of it, in tokens of the reply's own model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from contextlib import closing

from edgedec.core.errors import SideLost
from edgedec.core.progress import Notice, Steps
from edgedec.core.quick_dataclass import dataclass
from edgedec.decode.engine import Engine
from edgedec.decode.records import FinishReason, ReplyDetails, Step
from edgedec.sampling import DrawParams
from edgedec.switch.side import TextSide
from edgedec.switch.spelling import StreamingDecoder
from edgedec.text.passage import Passage, Turns
from edgedec.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """The settings of a reply. ``end``: most tokens of the whole sequence.

    ``turns``: the messages before it, where it is one of a conversation; ``start``: tokens before it.
    """

    params: DrawParams
    end: int
    stop_ids: frozenset[int]
    progress: Steps | None = None
    turns: Turns = ()
    start: int = 0


@dataclass(frozen=True, slots=True)
class Chunk:
    """The outcome of one token of a generator: perhaps steps to commit, perhaps none yet."""

    steps: Sequence[Step]
    entropy_bits: float | None = None


Chunks = Generator[Chunk, None, None]


class TurnGenerator(ABC):
    """Generates stretches of a reply behind the committed tokens, which belong to the caller.

    ``elsewhere``: it runs on another machine, or in another process, which reads nothing here.
    """

    name: str
    elsewhere = False

    def missing(self, committed: Sequence[int]) -> int:
        """How many tokens it has to read before it can go on, beyond the last one."""
        return 0

    @abstractmethod
    def generate(self, committed: Sequence[int], request: TurnRequest) -> Chunks:
        """Go on until the reply ends, or as far as this generator can. Close it to hand over.

        The caller commits the steps of each chunk before it asks for the next one.
        """

    def may_stop(self, committed: Sequence[int]) -> bool:
        """Whether the other model can go on behind ``committed``. Default: it stops by itself."""
        return False

    def forget(self) -> None:
        """Empty its cache. Default: it has none."""
        return

    def _steps(self, tokens: Sequence[int], committed: Sequence[int], request: TurnRequest) -> list[Step]:
        """The steps that commit ``tokens``, none behind the end of the reply."""
        steps = []
        for at, token in enumerate(tokens, len(committed)):
            reason: FinishReason | None = "stop" if token in request.stop_ids else None
            reason = reason or ("length" if at + 1 == request.end else None)
            steps.append(Step(token, at, reason, writer=self.name))
            if reason:
                break
        return steps


class HomeGenerator(TurnGenerator):
    """A model that runs here, in ``engine``: the reply's own, or another one of the same vocabulary.

    ``agrees`` says whether the other model can go on behind the committed tokens; None: it always can.
    """

    def __init__(
        self, name: str, engine: Engine, agrees: Callable[[Sequence[int]], bool] | None = None
    ) -> None:
        self.name = name
        self.engine = engine
        self._agrees = agrees

    def missing(self, committed: Sequence[int]) -> int:
        """See ``TurnGenerator.missing``."""
        return max(len(committed) - 1 - self.engine.reusable(committed), 0)

    def forget(self) -> None:
        """Empty its cache."""
        self.engine.reset()

    def generate(self, committed: Sequence[int], request: TurnRequest) -> Chunks:
        """See ``TurnGenerator.generate``. Ends behind a token that it does not have, and where its context is
        full.
        """
        if max(committed) >= self.engine.spec.vocab_size or len(committed) >= self.engine.capacity:
            return
        steps = self.engine.generate(
            committed,
            request.params,
            max_tokens=request.end - len(committed),
            stop_ids=request.stop_ids,
            progress=request.progress,
            details=ReplyDetails(entropy=True, start=request.start),
        )
        with closing(steps):
            for step in steps:
                full = step.finish_reason == "length" and step.position < request.end - 1
                reason = None if full else step.finish_reason
                yield Chunk([step._replace(finish_reason=reason, writer=self.name)], step.entropy_bits)

    def may_stop(self, committed: Sequence[int]) -> bool:
        """See ``TurnGenerator.may_stop``."""
        return self._agrees is None or self._agrees(committed)


class RemoteGenerator(TurnGenerator):
    """A model that is elsewhere, and continues text. It is the large one, and stops by itself.

    ``text_of`` returns committed tokens as text with control tokens spelled out; ``least_run`` is the length
    of a stretch in tokens. Where the side is lost, a line to ``notice`` says so, and it generates no more.
    """

    elsewhere = True

    def __init__(
        self,
        side: TextSide,
        home: Tokenizer,
        text_of: Callable[[Sequence[int]], str],
        least_run: int,
        notice: Notice,
    ) -> None:
        self.name = side.name
        self._side = side
        self._home = home
        self._text_of = text_of
        self._least_run = least_run
        self._notice = notice
        self._lost = False

    def generate(self, committed: Sequence[int], request: TurnRequest) -> Chunks:
        """See ``TurnGenerator.generate``."""
        decoder, most = StreamingDecoder(self._home), min(self._least_run, request.end - len(committed))
        if self._lost:
            return
        received = 0
        try:
            for text in self._side.continued(self._passage(committed, request), most, request.params):
                if request.progress:  # it raises where the user gave up
                    request.progress(len(committed), len(committed))
                if not text:
                    continue
                received += len(text)
                piece = text.encode("utf-8", "replace")
                for step in self._steps(decoder.push(piece), committed, request):
                    yield Chunk([step])
            if not received and not self._side.ended:
                raise SideLost(f"{self.name} answered nothing")
        except SideLost as lost:
            self._lost = True
            self._notice(f"note: {lost.message}; the reply goes on without {self.name}")
        for step in self._steps(decoder.flush(), committed, request):
            yield Chunk([step])
        if self._side.ended and not self._lost:
            for step in self._steps(sorted(request.stop_ids)[:1], committed, request):
                yield Chunk([step])

    def _passage(self, committed: Sequence[int], request: TurnRequest) -> Passage:
        tokens = committed[request.start :] if request.turns else ()
        reply = b"".join(map(self._home.token_bytes, tokens)).decode("utf-8", "replace")
        return Passage(self._text_of(committed), request.turns, reply)
