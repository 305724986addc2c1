"""Models that take turns on one reply. Each writes a stretch of it, in tokens of the reply's own model."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Protocol

from edgedec.core.errors import SideLost
from edgedec.core.passage import Passage, Turns
from edgedec.core.progress import Notice, Steps
from edgedec.decode.engine import Engine
from edgedec.decode.records import FinishReason, Step
from edgedec.draft.bridge import Vocabulary
from edgedec.sampling import DrawParams
from edgedec.switch.own_prompt import OwnPrompt
from edgedec.switch.side import TextSide
from edgedec.switch.spelling import ForeignReading, Hearing


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of a reply. ``end``: most tokens of the whole sequence.

    ``turns``: the messages before it, where it is one of a conversation; ``start``: tokens before it.
    """

    params: DrawParams
    end: int
    stop_ids: frozenset[int]
    progress: Steps | None = None
    logprobs: int | None = None
    turns: Turns = ()
    start: int = 0


@dataclass(frozen=True, slots=True)
class Uttered:
    """The outcome of one token of a writer: perhaps steps to commit, perhaps none yet."""

    steps: Sequence[Step]
    entropy_bits: float | None = None


class Writer(Protocol):
    """Writes stretches of a reply behind the committed tokens, which belong to the caller."""

    @property
    def name(self) -> str: ...

    @property
    def elsewhere(self) -> bool:
        """Whether it runs on another machine, or in another process, which reads nothing here."""
        ...

    def rendered(self, turns: Turns, prompt_ids: Sequence[int]) -> None:
        """See ``OwnPrompt.rendered``."""
        ...

    def missing(self, committed: Sequence[int]) -> int:
        """How many tokens it has to read before it can write, beyond the last one."""
        ...

    def write(self, committed: Sequence[int], terms: Terms) -> Generator[Uttered, None, None]:
        """Write until the reply ends, or as far as this writer can. Close it to hand over.

        The caller commits the steps of each piece before it asks for the next one.
        """
        ...

    def may_stop(self, committed: Sequence[int]) -> bool:
        """Whether the other model can go on behind ``committed``."""
        ...

    def forget(self) -> None:
        """Empty its cache."""
        ...

    @property
    def dropped(self) -> int:
        """Tokens that the latest stretch drew and that closing it threw away."""
        ...


class HomeWriter:
    """The reply's own model, or another one of the same vocabulary.

    ``agrees`` says whether the other model reads the end of the committed tokens as this one does; ``own`` is
    the prompt of another template.
    """

    dropped = 0
    elsewhere = False

    def __init__(
        self,
        name: str,
        engine: Engine,
        agrees: Callable[[Sequence[int]], bool] | None = None,
        own: OwnPrompt | None = None,
    ) -> None:
        self.name = name
        self.engine = engine
        self._agrees = agrees
        self._own = own
        engine.measures_entropy = True

    def rendered(self, turns: Turns, prompt_ids: Sequence[int]) -> None:
        """See ``Writer.rendered``."""
        if self._own:
            self._own.rendered(turns, prompt_ids)

    def missing(self, committed: Sequence[int]) -> int:
        """See ``Writer.missing``."""
        ids = self.reads(committed)
        return max(len(ids) - 1 - self.engine.reusable(ids), 0)

    def reads(self, committed: Sequence[int]) -> list[int]:
        """Return ``committed`` as this model reads them."""
        count, prompt = self._own.before(committed) if self._own else (0, [])
        return [*prompt, *committed[count:]]

    def write(self, committed: Sequence[int], terms: Terms) -> Generator[Uttered, None, None]:
        """See ``Writer.write``. Ends behind a token that it does not have, and where its context is full."""
        ids, ends = self.reads(committed), terms.end - 1
        if max(ids) >= self.engine.spec.vocab_size or len(ids) >= self.engine.capacity:
            return
        before = len(committed) - len(ids)
        steps = self.engine.generate(
            ids,
            terms.params,
            max_tokens=terms.end - len(committed),
            stop_ids=terms.stop_ids,
            progress=terms.progress,
            logprobs=terms.logprobs,
        )
        with closing(steps):
            for step in steps:
                place = step.position + before
                full = step.finish_reason == "length" and place < ends
                reason = None if full else step.finish_reason
                said = replace(step, position=place, finish_reason=reason, writer=self.name)
                yield Uttered([said], step.entropy_bits)

    def forget(self) -> None:
        """See ``Writer.forget``."""
        self.engine.reset()

    def may_stop(self, committed: Sequence[int]) -> bool:
        """See ``Writer.may_stop``."""
        return self._agrees is None or self._agrees(committed)


class ForeignWriter:
    """A model of another vocabulary than the reply's.

    ``ends`` has the reply's end token for each of this model's. Text is handed out up to a boundary that both
    tokenizers have; it is found with the token behind it, which a hand-over drops.
    """

    elsewhere = False

    def __init__(
        self,
        name: str,
        engine: Engine,
        reading: ForeignReading,
        vocabularies: Vocabularies,
        ends: Mapping[int, int],
    ) -> None:
        self.name = name
        self.engine = engine
        self._reading = reading
        self._home, self._own = vocabularies.home, vocabularies.own
        self._ends = dict(ends)
        self._hearing = Hearing(self._home)
        engine.measures_entropy = True

    @property
    def dropped(self) -> int:
        """See ``Writer.dropped``."""
        return self._hearing.held

    def rendered(self, turns: Turns, prompt_ids: Sequence[int]) -> None:
        """See ``Writer.rendered``."""
        if self._reading.own:
            self._reading.own.rendered(turns, prompt_ids)

    def missing(self, committed: Sequence[int]) -> int:
        """See ``Writer.missing``; in this model's tokens."""
        ids = self.reads(committed)
        return max(len(ids) - 1 - self.engine.reusable(ids), 0)

    def reads(self, committed: Sequence[int]) -> list[int]:
        """Return ``committed`` in this model's tokens."""
        return self._reading.ids(committed)

    def write(self, committed: Sequence[int], terms: Terms) -> Generator[Uttered, None, None]:
        """See ``Writer.write``. Ends where this model's context is full."""
        self._hearing = hearing = Hearing(self._home)
        ids = self.reads(committed)
        if not ids or len(ids) >= self.engine.capacity:
            return
        steps = self.engine.generate(
            ids,
            terms.params,
            max_tokens=self.engine.capacity,
            stop_ids=self._ends,
            progress=terms.progress,
        )
        with closing(steps):
            for step in steps:
                if step.token in self._ends:
                    said = [*hearing.flush(), self._ends[step.token]]
                    yield Uttered(self._steps(said, committed, terms), step.entropy_bits)
                    return
                said = hearing.push(self._own.token_bytes(step.token))
                yield Uttered(self._steps(said, committed, terms), step.entropy_bits)
        yield Uttered(self._steps(hearing.flush(), committed, terms))

    def forget(self) -> None:
        """See ``Writer.forget``."""
        self.engine.reset()

    def may_stop(self, committed: Sequence[int]) -> bool:
        """See ``Writer.may_stop``: where the latest token began behind a boundary."""
        return self._hearing.held == 1

    def _steps(self, ids: Sequence[int], committed: Sequence[int], terms: Terms) -> list[Step]:
        return steps_of(ids, len(committed), terms, self.name)


@dataclass(frozen=True, slots=True)
class Vocabularies:
    """``home``: of the reply. ``own``: of a model that helps with it."""

    home: Vocabulary
    own: Vocabulary


class TextWriter:
    """A model that is elsewhere, and continues text. It is the large one.

    ``text_of`` returns committed tokens as text with control tokens spelled out; ``least_run`` is the length
    of a stretch in tokens. Where the side is lost, a line to ``notice`` says so, and it writes no more.
    """

    dropped = 0
    elsewhere = True

    def __init__(
        self,
        side: TextSide,
        home: Vocabulary,
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

    def rendered(self, turns: Turns, prompt_ids: Sequence[int]) -> None:
        """See ``Writer.rendered``. The text that is sent is the one of the reply's own template."""

    def missing(self, committed: Sequence[int]) -> int:
        """See ``Writer.missing``. It reads elsewhere."""
        return 0

    def write(self, committed: Sequence[int], terms: Terms) -> Generator[Uttered, None, None]:
        """See ``Writer.write``."""
        hearing, most = Hearing(self._home), min(self._least_run, terms.end - len(committed))
        if self._lost:
            return
        heard = 0
        try:
            for text in self._side.continued(self._passage(committed, terms), most, terms.params):
                if terms.progress:  # it raises where the user gave up
                    terms.progress(len(committed), len(committed))
                if not text:
                    continue
                heard += len(text)
                for step in self._steps(hearing.push(text.encode("utf-8", "replace")), committed, terms):
                    yield Uttered([step])
            if not heard and not self._side.ended:
                raise SideLost(f"{self.name} answered nothing")
        except SideLost as lost:
            self._lost = True
            self._notice(f"note: {lost.message}; the reply goes on without {self.name}")
        for step in self._steps(hearing.flush(), committed, terms):
            yield Uttered([step])
        if self._side.ended and not self._lost:
            for step in self._steps(sorted(terms.stop_ids)[:1], committed, terms):
                yield Uttered([step])

    def _passage(self, committed: Sequence[int], terms: Terms) -> Passage:
        said = committed[terms.start :] if terms.turns else ()
        reply = b"".join(map(self._home.token_bytes, said)).decode("utf-8", "replace")
        return Passage(self._text_of(committed), terms.turns, reply)

    def forget(self) -> None:
        """See ``Writer.forget``. It remembers nothing."""

    def may_stop(self, committed: Sequence[int]) -> bool:
        """See ``Writer.may_stop``: it stops by itself."""
        return False

    def _steps(self, ids: Sequence[int], committed: Sequence[int], terms: Terms) -> list[Step]:
        return steps_of(ids, len(committed), terms, self.name)


def steps_of(ids: Sequence[int], position: int, terms: Terms, writer: str) -> list[Step]:
    """Return the steps that commit ``ids`` from ``position`` on, none behind the end of the reply."""
    steps = []
    for at, token in enumerate(ids, position):
        reason: FinishReason | None = "stop" if token in terms.stop_ids else None
        reason = reason or ("length" if at + 1 == terms.end else None)
        steps.append(Step(token, at, reason, writer=writer))
        if reason:
            break
    return steps
