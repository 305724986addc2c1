"""Functions of the host that the core calls back: their errors come out of the call that asked them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Calls:
    """The error of a function that failed: the core ends its call then, and ``raise_kept`` raises it."""

    def __init__(self) -> None:
        self._error: BaseException | None = None

    def keeping(self, act: Callable[..., Any], failed: Any) -> Callable[..., Any]:
        """Return ``act`` for the core: ``failed`` is its result where it raises, and after that."""

        def call(*arguments: Any) -> Any:
            if self._error:  # nothing that the core decides now will be used
                return failed
            try:
                return act(*arguments)
            except BaseException as error:
                self._error = error
                return failed

        return call

    def raise_kept(self) -> None:
        """Raise the error of a function since the call before, if one failed."""
        if self._error:
            error, self._error = self._error, None
            raise error


class CalledBack:
    """A model of Python's that the core calls back."""

    calls: Calls
