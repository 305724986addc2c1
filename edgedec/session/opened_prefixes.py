"""The saved prefixes of a run, where they were asked for: few runs need the modules behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgedec.assemble.run_context import RunContext
    from edgedec.assemble.runner import Runner
    from edgedec.session.saved_prefixes import SavedPrefixes


def opened_prefixes(limit: int | None, runner: Runner, context: RunContext) -> SavedPrefixes | None:
    """Return the saved prefixes of a run, at most ``limit`` bytes in the home of ``context``; None for none.

    A notice says why where they are not possible.
    """
    if limit is None or context.home is None:
        return None
    from edgedec.session.saved_prefixes import prefixes_of

    return prefixes_of(runner, context.home, limit, context.notice)
