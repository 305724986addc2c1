"""Wait for the verification of the bundles that a command opens; it ends well only if they are intact."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from edgedec.cli import progress
from edgedec.core.verification import Verifications

_KEY = "edgedec.verifications"


def conclude_with(context: click.Context, verified: Verifications) -> None:
    """Have the command of ``context`` wait for the result when it ends, with progress."""
    context.meta.setdefault(_KEY, []).append(verified)
    context.with_resource(_concluded(verified))


def check(context: click.Context) -> None:
    """Raise BadFileError if a bundle that the command opened has failed so far."""
    for one in context.meta.get(_KEY, ()):
        one.check()


def wait(context: click.Context) -> None:
    """Wait until all bundles that the command opened are verified. Raise BadFileError if one fails."""
    with progress.reporter() as report:
        for one in context.meta.get(_KEY, ()):
            one.wait(lambda done, total: report("verify", done, total))


@contextmanager
def _concluded(verified: Verifications) -> Iterator[None]:
    try:
        yield
    finally:
        # Before click 8.2 a context does not tell its resources that an error ends it; sys does.
        with progress.reporter() as report:
            verified.conclude(sys.exception(), lambda done, total: report("verify", done, total))
