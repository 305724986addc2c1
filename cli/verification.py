"""Verify the bundles that a command opens, beside its work; it ends well only if they are intact."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from edgedec.cli import progress
from edgedec.core.errors import BackendError, BadFileError, UnsupportedError
from edgedec.core.manifest import Manifest
from edgedec.core.verification import Verification

_KEY = "edgedec.verifications"
_PERHAPS_DAMAGE = (BackendError, BadFileError, UnsupportedError)
"""Errors that a damaged file can lead to before its hash is known to be wrong."""


def verify_beside(context: click.Context, bundle: Path, home: Path) -> None:
    """Begin to verify ``bundle``; the command of ``context`` waits for the result when it ends.

    ``home`` holds the records of earlier verifications. Raises the errors of ``Manifest.load``.
    """
    found = Verification(bundle, Manifest.load(bundle), home)
    context.meta.setdefault(_KEY, []).append(found)
    context.with_resource(_waited_for(found))


def check(context: click.Context) -> None:
    """Raise BadFileError if a bundle that the command opened has failed so far."""
    for one in context.meta.get(_KEY, ()):
        one.check()


def wait(context: click.Context) -> None:
    """Wait until all bundles that the command opened are verified. Raise BadFileError if one fails."""
    for one in context.meta.get(_KEY, ()):
        _wait(one)


@contextmanager
def _waited_for(found: Verification) -> Iterator[None]:
    try:
        yield
        # Before click 8.2 a context does not tell its resources that an error ends it.
        if (error := sys.exception()) is not None:
            raise error
    except _PERHAPS_DAMAGE:
        _wait(found)
        raise
    except BaseException:
        found.stop()
        raise
    _wait(found)


def _wait(found: Verification) -> None:
    with progress.reporter() as report:
        found.wait(lambda done, total: report("verify", done, total))
