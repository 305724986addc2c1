"""The names of an object that people may want: those that ``dir`` lists and the documentation has."""

from __future__ import annotations

from collections.abc import Callable

LISTED = "listed"
"""The attribute of ``__dir__`` that has them."""


def public_names(*names: str) -> Callable[[object], list[str]]:
    """Make the ``__dir__`` of a class: it lists ``names``, and not what the class shares with other rooms.

    >>> class Thing:
    ...     __dir__ = public_names("size", "name")
    >>> dir(Thing())
    ['name', 'size']
    """

    def listed(thing: object) -> list[str]:
        return list(names)

    setattr(listed, LISTED, names)
    return listed
