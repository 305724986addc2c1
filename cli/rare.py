"""Show the options that few people need last, under a heading of their own."""

from __future__ import annotations

import click

RARE = frozenset(
    {
        "backend",
        "calibrate",
        "draft_tokens",
        "history",
        "isa",
        "keep_source",
        "kv",
        "min_p",
        "objective",
        "peer_pythons",
        "repetition_penalty",
        "top_n_sigma",
    }
)
"""Parameters of options that few people need, by the names that commands receive them under."""


class Command(click.Command):
    """A command whose help shows its rare options after the others."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        common, rare = split(self.get_params(ctx))
        for heading, options in (("Options", common), ("Rare options", rare)):
            if rows := [row for one in options if (row := one.get_help_record(ctx))]:
                with formatter.section(heading):
                    formatter.write_dl(rows)


def split(parameters: list[click.Parameter]) -> tuple[list[click.Option], list[click.Option]]:
    """Return the common and the rare options among ``parameters``."""
    options = [one for one in parameters if isinstance(one, click.Option)]
    return [one for one in options if one.name not in RARE], [one for one in options if one.name in RARE]
