"""Problems for two models that take turns: each has a prompt, and a judgement of the reply's text."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

from edgedec.bench.harness.code_problems import CODE_PROBLEMS
from edgedec.bench.harness.sandbox import code_of, passes
from edgedec.bench.studies.quality import read_problems
from edgedec.core.quick_dataclass import dataclass
from edgedec.text.last_number import last_number

GSM8K, CODE = "gsm8k", "code"


@dataclass(frozen=True, slots=True)
class SwitchProblem:
    """A prompt, and the judgement of a reply's text."""

    task: str
    prompt: str
    right: Callable[[str], bool]

    @property
    def key(self) -> str:
        """A name that stays the same whichever other problems are asked."""
        return f"{self.task} {hashlib.sha256(self.prompt.encode()).hexdigest()[:12]}"

    @property
    def seed(self) -> int:
        """A seed of its own."""
        return int.from_bytes(hashlib.sha256(self.key.encode()).digest()[:4], "big")


def math_problems(path: Path) -> list[SwitchProblem]:
    """Return the questions of a file in the format of GSM8K. Raises NotFoundError, BadFileError."""

    def judge(answer: str) -> Callable[[str], bool]:
        return lambda text: last_number(text) == answer

    return [SwitchProblem(GSM8K, one.text, judge(one.answer)) for one in read_problems(path)]


def code_problems() -> list[SwitchProblem]:
    """Return the programming problems; code is run in a sandbox."""

    def judge(tests: Sequence[str]) -> Callable[[str], bool]:
        return lambda text: passes(code_of(text), tests)

    return [SwitchProblem(CODE, one.prompt, judge(one.tests)) for one in CODE_PROBLEMS]
