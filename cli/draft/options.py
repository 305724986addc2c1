"""Options that several subcommands of ``edgedec draft`` have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.decorators import FC

LEAST_TOKENS = 20_000
"""Tokens of replies that are gathered before a drafter is made of them."""


def prompts_option(help: str) -> Callable[[FC], FC]:
    """Return the option ``--prompts``."""
    return click.option(
        "--prompts",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help=help,
    )
