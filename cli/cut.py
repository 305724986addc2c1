"""One line about replies that a limit cut: which limit it was, and what would give more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from edgedec.core.quick_dataclass import dataclass

if TYPE_CHECKING:
    from edgedec.session.reply import Reply

_NUMBERS = 10
"""Numbers of lines in one message."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Tokens of context that a conversation has, and those that the model can have.

    ``slides``: the command can go on with a full context, and does not yet.
    """

    context: int
    most: int
    slides: bool = True

    def of_one(self, reply: Reply) -> str:
        """Return the line about a reply; "" for one that came to its own end."""
        if reply.finish_reason == "length":
            return f"note: --max-tokens cut the reply after {len(reply.tokens)} tokens; {_UNLIMITED}"
        if reply.finish_reason == "loop":
            return f"note: the reply repeats itself, and was cut after {len(reply.tokens)} tokens; {_LIMITED}"
        if reply.finish_reason != "context":
            return ""
        full = f"note: the context of {self.context} tokens is full"
        return f"{full}, and cut the reply after {len(reply.tokens)}; {self._more()}"

    def of_several(self, cut: Mapping[str, Sequence[int]], kind: str = "line") -> list[str]:
        """Return a line for each limit; ``cut`` has the numbers of the lines by finish reason.

        ``kind``: what the numbers are of.
        """
        lengths, contexts, loops = (cut.get(reason, ()) for reason in ("length", "context", "loop"))
        found = []
        if loops:
            found.append(f"note: replies that repeat themselves were cut: {_lines(loops, kind)}; {_LIMITED}")
        if lengths:
            found.append(f"note: --max-tokens cut the replies to {_lines(lengths, kind)}; {_UNLIMITED}")
        if contexts:
            full = f"note: the context of {self.context} tokens cut the replies to {_lines(contexts, kind)}"
            found.append(f"{full}; {self._more()}")
        return found

    def _more(self) -> str:
        options = [f"--context, up to {self.most}"] if self.context < self.most else []
        options += ["--when-full slide"] if self.slides else []
        return f"{' or '.join(options)} gives more" if options else "the model has no more"


_UNLIMITED = "a higher one gives more, and none the whole context"
_LIMITED = "with --max-tokens replies go on to that limit"


def _lines(numbers: Sequence[int], kind: str) -> str:
    shown = ", ".join(map(str, numbers[:_NUMBERS])) + (", ..." if len(numbers) > _NUMBERS else "")
    return f"{kind}{'' if len(numbers) == 1 else 's'} {shown}"
