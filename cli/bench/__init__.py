"""``edgedec bench``: one module for each study, imported when it is called."""

from __future__ import annotations

from edgedec.cli.command import shown_examples
from edgedec.cli.subcommands import SubcommandGroup

STUDIES = {
    "speed": "Plain decoding, prefill, load and memory, beside peers.",
    "drafts": "Ways to draft, by kind of question and by memory.",
    "kernels": "Cost of a pass over k tokens.",
    "experts": "Hits of experts in memory, by policy.",
    "memory": "Peak memory, within budgets and beside peers.",
    "accuracy": "Agreement, right answers, structured output.",
    "switch": "Two models that take turns: answers and cost.",
    "batch": "Tokens per second of conversations in a batch.",
    "embed": "Vectors of texts: texts a second and memory.",
    "report": "One report of a model, or two side by side.",
}
"""Help of subcommands by name. A new study is a module of that name and a line here."""
_EXAMPLES = (
    "edgedec bench speed -m qwen2.5-coder-1.5b --peer llama.cpp",
    "edgedec bench kernels -m qwen2.5-coder-1.5b",
    "edgedec bench batch --batch 1 --batch 4 --draft auto --draft off",
    "edgedec bench report --quick",
    "edgedec bench accuracy -m smollm2.gguf --input book.txt --input code.py",
)
command = SubcommandGroup(
    "bench",
    package=__name__,
    subcommands=STUDIES,
    help="Measure speed, memory and accuracy on this machine.",
    epilog=shown_examples(_EXAMPLES),
)
