"""Sides that answer the same prompts in rotation.

For each turn of a question all sides answer the same token ids. The next turn continues the tokens of plain
decoding. Sides with a memory level get the prompts that a chat with their context would make: without the
oldest turns, where those no longer fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from pathlib import Path

from edgedec.bench.harness.chat_prompts import ENDLESS_TOKENS, ChatPrompts, longest_prompt, prompts_of
from edgedec.bench.harness.energy import EnergyProbe
from edgedec.bench.harness.journal import Journal, SideAnswer
from edgedec.bench.harness.pairing import settle as wait_until_idle
from edgedec.bench.harness.questions import Question
from edgedec.bench.harness.study import OFF, PLAIN, Case, OpenSide, Study, StudySide, run_study
from edgedec.bundle.manifest import Manifest
from edgedec.core.errors import BackendError
from edgedec.core.progress import Progress
from edgedec.core.quick_dataclass import dataclass

_WARM_UP_TOKENS = 4


@dataclass(frozen=True, slots=True)
class ReplyStudy:
    """Questions, and how all sides answer them. ``stop`` tokens end a reply."""

    questions: tuple[Question, ...]
    script: Callable[[], ChatPrompts]
    max_tokens: int
    stop: tuple[int, ...]
    settle: Callable[[], None] = wait_until_idle
    energy: EnergyProbe | None = None

    @classmethod
    def of(
        cls, bundle: Path, manifest: Manifest, questions: Sequence[Question], max_tokens: int
    ) -> tuple[ReplyStudy, int]:
        """Return a study of a bundle's model, and the tokens that the longest conversation can have."""
        script, ends = prompts_of(bundle, manifest), tuple(manifest.spec.eos_ids)
        longest = max(longest_prompt(one.turns, script(), max_tokens) for one in questions)
        return cls(tuple(questions), script, max_tokens, ends), longest + max_tokens

    @property
    def turns(self) -> int:
        return sum(len(question.turns) for question in self.questions)


def collect_replies(
    sides: Sequence[StudySide], study: ReplyStudy, journal: Journal[SideAnswer], progress: Progress
) -> None:
    """Add the answers that ``journal`` lacks. One of ``sides`` is ``PLAIN``. Raises as ``run_study``."""
    run = _Replies(study, sides, journal)
    run_study(
        Study(
            sides=sides, cases=run.cases(), total=study.turns, ask=run.ask, warm=run.warm, energy=study.energy
        ),
        journal,
        progress,
    )  # fmt: skip


@dataclass(slots=True)
class _Asked:
    """One turn of a question: its prompt; that of each side with a memory level, with what it dropped."""

    text: str
    prompt: list[int]
    fitted: dict[str, _Fitted] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Fitted:
    """A prompt that fits the context of ``capacity`` tokens. ``refused``: the reason why there is none."""

    prompt: list[int]
    capacity: int = ENDLESS_TOKENS
    dropped: int = 0
    refused: str = ""


@dataclass(frozen=True, slots=True)
class _Replies:
    study: ReplyStudy
    sides: Sequence[StudySide]
    journal: Journal[SideAnswer]
    scripts: dict[str, ChatPrompts] = field(default_factory=dict)
    """The conversation of each side with a memory level, for the latest question."""

    def cases(self) -> Iterator[Case]:
        number = 0
        for question in self.study.questions:
            script = self.study.script()
            self.scripts.clear()
            self.scripts.update({side.name: self.study.script() for side in self.sides if side.level})
            for turn, text in enumerate(question.turns):
                asked = _Asked(text, script.prompt(text))
                yield Case((question.key, turn), number, asked)
                number += 1
                for side in self.sides:
                    self._fitted(side, asked)  # also where the answer was known: the script goes on
                reply = self.journal.answers[question.key, turn, PLAIN].tokens
                for one in (script, *self.scripts.values()):
                    one.add_reply(reply)

    def warm(self, host: OpenSide, case: Case, side: StudySide) -> None:
        """Decode plainly: drafters must not have seen the question."""
        host.request(
            "reply", tokens=case.data.prompt[:8], max_tokens=_WARM_UP_TOKENS, stop=[], mode=OFF,
            **side.arguments,
        )  # fmt: skip

    def ask(self, host: OpenSide, case: Case, side: StudySide) -> SideAnswer:
        question, turn = str(case.key[0]), int(case.key[1])
        found = self._fitted(side, case.data)
        if found.refused:
            return SideAnswer(
                question, turn, side.name, self.journal.run, [], 0.0, 0.0, refused=found.refused
            )
        self.study.settle()
        took = host.metered(
            "reply", "decode_s", tokens=found.prompt, max_tokens=self.study.max_tokens,
            stop=list(self.study.stop), mode=side.mode, **side.arguments,
        )  # fmt: skip
        if not took["tokens"]:
            raise BackendError(f"{side.name} gave no token")
        facts = {**host.request("memory"), **took, "prompt_tokens": len(found.prompt)}
        answer = SideAnswer(question, turn, side.name, self.journal.run, **facts)
        cut = len(found.prompt) + len(answer.tokens) >= found.capacity
        return replace(answer, dropped=found.dropped, cut=cut)

    def _fitted(self, side: StudySide, asked: _Asked) -> _Fitted:
        """Return the prompt of a side. Its process was open before, now or when the answer was saved."""
        script = self.scripts.get(side.name)
        if script is None:
            return _Fitted(asked.prompt)
        if side.name not in asked.fitted:
            facts = self.journal.opened[side.process.name]
            capacity, refused, prompt = facts.get("capacity", 0), facts.get("refused", ""), asked.prompt
            if not refused:
                prompt = script.prompt(asked.text, capacity, self.study.max_tokens)
                if len(prompt) >= capacity:
                    refused = f"a prompt of {len(prompt)} tokens does not fit a context of {capacity}"
            asked.fitted[side.name] = _Fitted(prompt, capacity, script.dropped, refused)
        return asked.fitted[side.name]
