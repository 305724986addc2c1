"""Options that several subcommands of ``edgedec draft`` have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.decorators import FC


def prompts_option(help: str) -> Callable[[FC], FC]:
    """Return the option ``--prompts``."""
    return click.option(
        "--prompts",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help=help,
    )


def tokens_option(help: str, default: int | None = None) -> Callable[[FC], FC]:
    """Return the option ``--tokens``, a number of tokens of replies."""
    return click.option(
        "--tokens",
        type=click.IntRange(min=1),
        metavar="N",
        default=default,
        show_default=default is not None,
        help=help,
    )
