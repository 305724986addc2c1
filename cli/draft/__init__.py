"""``edgedec draft``: one module for each command that makes a drafter, imported when it is called."""

from __future__ import annotations

from edgedec.cli.command import shown_examples
from edgedec.cli.subcommands import SubcommandGroup

MAKERS = {
    "rollouts": "Let a model answer prompts, and keep its replies.",
    "tables": "Make tables, so that the first reply is drafted too.",
    "trim": "Choose the ids that a head computes when it drafts.",
    "train": "Train a head or an adapter that drafts for a model.",
    "import": "Install a drafter that others made.",
    "export": "Write a drafter as a GGUF file for llama.cpp.",
    "list": "Show the drafters that belong to models.",
}
"""Help of subcommands by name. A new one is a module of that name and a line here."""
_HELP = """Make drafters for a model out of its own replies.

A drafter that is made belongs to that one model. It is used from the next start on, without being named.
"""
_EXAMPLES = (
    "edgedec draft rollouts -m qwen2.5-coder-1.5b --prompts prompts.jsonl --greedy",
    "edgedec draft trim -m qwen2.5-coder-1.5b",
    "edgedec draft tables -m qwen2.5-coder-1.5b",
    "edgedec draft train -m qwen2.5-coder-1.5b --minutes 60",
    "edgedec draft import AngelSlim/Qwen3-1.7B_eagle3 -m qwen3-1.7b",
    "edgedec draft list",
)
command = SubcommandGroup(
    "draft",
    package=__name__,
    subcommands=MAKERS,
    help=_HELP,
    epilog=shown_examples(_EXAMPLES),
)
