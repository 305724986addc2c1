"""The engine for browsers, for cases that the Python runtime answers too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from edgedec.export.web.cpu import CPU_PROGRAM, write_cpu_program
from edgedec.sampling import DrawParams
from tests.native.cases import Case, Outcome
from tests.native.web import WebEngine, WebError

CHEAP = [[1, 1.0], [2, 1.01], [4, 1.02], [8, 1.03], [16, 1.04]]
"""Costs with which every draft pays, however busy the machine is: a second for a pass."""


def with_program(bundle: Path) -> Path:
    """Add the program of the CPU to a bundle."""
    write_cpu_program(bundle, bundle / CPU_PROGRAM)
    return bundle


def request_of(params: DrawParams) -> dict[str, Any]:
    """The members of a request that say how to draw."""
    names = (
        "temperature", "top_k", "top_p", "min_p", "top_n_sigma", "typical", "eta", "top_h", "edt", "mirostat",
        "mirostat_eta", "repetition_penalty", "frequency_penalty", "presence_penalty",
    )  # fmt: skip
    bias = [[token, value] for token, value in params.logit_bias]
    sampling = {name: getattr(params, name) for name in names}
    return {"sampling": sampling, "seed": str(params.seed), "logit_bias": bias}


def asked_for(case: Case) -> dict[str, Any]:
    """A case as a request."""
    messages = [{"role": role, "content": content} for role, content in case.roles()]
    prompt: dict[str, Any] = {"text": case.text} if case.text else {"messages": messages}
    form = {"choices": list(case.choices)} if case.choices else {"schema": case.schema or None}
    bounds = {"stop": list(case.stops), "max_tokens": case.max_tokens or 0}
    return prompt | request_of(case.params) | bounds | form


class WebRuns:
    """The engine for browsers with a bundle, its passes on this CPU."""

    def __init__(self, bundle: Path, **options: Any) -> None:
        self.engine = WebEngine(bundle, **{"context": 256, **options})

    def close(self) -> None:
        self.engine.close()

    def run(self, case: Case) -> Outcome:
        try:
            begun = self.engine.begin(**asked_for(case))
            shown = 0
            while self.engine.turn():
                grown, shown = len(self.engine.text) > shown, len(self.engine.text)
                if case.cancel is not None and len(self.engine.tokens) >= case.cancel and grown:
                    self.engine.stop()
            figures = self.engine.last()
        except WebError as error:
            return Outcome((error.code, str(error), error.hint))
        drafted = sum(one["drafter"] is not None for one in self.engine.pieces)
        finish, reused = figures["finish_reason"], begun["reused_tokens"]
        return Outcome(
            None, tuple(self.engine.tokens), self.engine.text, finish, begun["prompt_tokens"], reused, drafted
        )
