"""A trial of each new grammar in another process, before this one compiles it.

The compiler is a library in machine code. A grammar that crashes it, or that takes it minutes or all memory,
then costs that process and an error; see ``trial_worker`` for the limits, ``vocabulary`` for its memory.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Mapping

from edgedec.core.errors import BackendError
from edgedec.core.quick_dataclass import dataclass
from edgedec.system.limits import IDLE, MEMORY_UP, TIME_UP
from edgedec.text.line_process import LineProcess, ProcessEnded

_BACKSTOP_S = 60.0
"""A process that neither answers nor ends within this time is killed: its processor time is limited."""
_MOST_KNOWN = 1000


@dataclass(frozen=True, slots=True)
class Trial:
    """How the compiler takes a grammar.

    ``fault``: why no process should compile it. ``refusal``: the compiler's own words against it. Both are ""
    for one that can be used. A grammar of tokens that only the model has may be refused in a trial.
    """

    fault: str = ""
    refusal: str = ""


class TrialCompiler:
    """Tries grammars in one process, which starts at the first that is new. For any thread."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._process: LineProcess | None = None
        self._known: OrderedDict[bytes, Trial] = OrderedDict()
        """By the hash of the grammar."""

    def of(self, text: str, states: int, size: int, control: Mapping[str, int]) -> Trial:
        """Return how the compiler takes the grammar ``text``.

        ``states``: how many its lexer may have. ``size`` and ``control``: tokens of the vocabulary, and the
        ids of its control tokens by their texts. Raises BackendError where no process can start.
        """
        key = hashlib.sha256(f"{states} {size} {text}".encode("utf-8", "surrogatepass")).digest()
        with self._turn:
            if (found := self._known.get(key)) is None:
                found = self._tried({"text": text, "states": states, "size": size, "control": dict(control)})
                self._known[key] = found
                if len(self._known) > _MOST_KNOWN:
                    self._known.popitem(last=False)
            self._known.move_to_end(key)
            return found

    def _tried(self, request: Mapping[str, object]) -> Trial:
        for fresh in (False, True):
            if fresh or self._process is None:
                self._process = _started()
            try:
                return Trial(refusal=self._process.ask(request, _BACKSTOP_S)["refusal"])
            except ProcessEnded as ended:
                self._process = None
                if not fresh and ended.code == IDLE:  # it was idle
                    continue
                if ended.stopped:
                    raise BackendError(
                        f"the process that tries a grammar gave no answer within {_BACKSTOP_S:.0f} s",
                        hint="other programs may take all processor time; try again",
                    ) from None
                return Trial(fault=_ENDS.get(ended.code, "it crashes the compiler"))
            except BaseException:
                self._process = None
                raise
        raise AssertionError("a fresh process was idle")


_ENDS = {
    TIME_UP: "it takes too long to compile",
    MEMORY_UP: "it takes too much memory to compile",
}


def _started() -> LineProcess:
    try:
        return LineProcess("edgedec.grammar.trial_worker", ("llguidance",))
    except OSError as error:
        raise BackendError(f"cannot start a process that tries grammars: {error}") from error


COMPILER = TrialCompiler()
"""The one of this process."""
