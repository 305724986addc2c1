"""Word the remedies of an error as options and commands of ``edgedec``."""

from __future__ import annotations

from collections.abc import Callable

from edgedec.core.errors import EdgeDecError, NotFoundError, Remedy
from edgedec.core.units import size_up

_KNOWN = "`edgedec list --all` shows the names; owner/repo of the model hub, a file or a folder will do too"

_SET: dict[str, Callable[[int | str], str]] = {
    "memory": lambda least: f"use --memory {size_up(int(least))} or more",
    "device_memory": lambda least: f"use --device gpu:{size_up(int(least))} or more",
    "gpu_layers": lambda most: f"use --device gpu:{most}layer{'s' if most != 1 else ''} or fewer",
    "context": lambda least: f"use --context {least} or more",
    "threads": lambda most: f"use --threads {most}{' or fewer' if most != 1 else ''}, or leave out --threads",
    "draft": lambda choice: f"use --draft {choice}",
    "when_full": lambda policy: f"use --when-full {policy}",
    "conversations": lambda most: f"use --batch with 1 to {most}",
    "model": lambda name: f"start with `edgedec chat -m {name}`",
    "pull": lambda name: f"edgedec pull {name}",
    "for": lambda device: f"export it again with `edgedec export SOURCE -o DIR --for {device}`",
    "rollouts": lambda name: f"first run `edgedec draft rollouts -m {name} --prompts FILE`, a prompt a line",
}
"""Wordings of the remedies that have a value."""

_CHANGE: dict[str, str] = {
    "memory": "leave out --memory",
    "context": "use a larger --context",
    "shorter_context": "use a smaller --context",
    "kv": "leave out --kv",
    "objective": "aim at time",
    "history": "leave out --history",
    "when_full": "leave out --when-full",
    "context_weight": "leave out --context-weight",
    "conversations": "use --batch 1 or, of a server, --parallel 1",
    "stop": "leave out --stop to have none",
    "quant": "leave out --quant",
    "raw": "`edgedec generate --raw` does without the template",
    "model": "use a smaller model",
    "embed": "`edgedec embed` makes vectors with it",
    "export": "export the model for EdgeDec's kernels",
    "without_bandwidth": "is enough memory free? `edgedec doctor --fast` does not measure it",
    "gpu": "use --device gpu",
    "device_memory": "use --device gpu without a size",
    "gpu_layers": "use --device gpu without layers",
    "known_model": _KNOWN,
    "save": "in a chat, /save writes a conversation and /load reads it",
}
"""Wordings of the remedies that have none."""

GONE = {
    "--kind": "--from GGUF alone for a small model",
    "--device-memory": "--device gpu:SIZE",
    "--gpu-layers": "--device gpu:14layers, with the number of layers",
    "--cold": "--mode cold",
    "--gguf": "-m FILE",
    "--grammar": "--form FILE",
    "--json-schema": "--form FILE.json",
    "--regex": "--form regex:PATTERN",
    "--form-sampling": "--form unbiased:FORM",
}
"""Options that there were, and the words for what does the same now."""

ELSEWHERE = {
    ("generate", name): f"`edgedec batch {name}` has taken its place"
    for name in ("--input", "--batch", "--samples", "--choose")
} | {
    ("batch", name): "the prompt is an argument, or comes from standard input" for name in ("-p", "--prompt")
}
"""Commands and options that they do not have -> the words for what does the same."""


def hint_of(error: EdgeDecError) -> str | None:
    """Return the hint of ``error`` in words of the command line, else in the library's; None without one."""
    hint = _hint(error)
    return error.meant(hint) if isinstance(error, NotFoundError) else hint


def _hint(error: EdgeDecError) -> str | None:
    phrases = [_phrase(remedy) for remedy in error.remedies]
    if not phrases or None in phrases:
        return error.hint
    # "use --memory 300MB or more, or use a smaller model" says "use" twice.
    first, *others = (phrase for phrase in phrases if phrase)
    shared = first.split()[0] + " "
    return ", or ".join([first, *(phrase.removeprefix(shared) for phrase in others)])


def _phrase(remedy: Remedy) -> str | None:
    if remedy.value is None:
        return _CHANGE.get(remedy.name)
    word = _SET.get(remedy.name)
    return word(remedy.value) if word else None
