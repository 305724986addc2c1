"""The terminals that are recorded: commands, keys, and the moments at which keys are pressed."""

from __future__ import annotations

from dataclasses import dataclass

ENTER, CTRL_C, TAB = "\r", "\x03", "\t"
PROMPT = "<prompt>"
"""A moment: the chat waits for a line."""
END = "<end>"
"""A moment: the command has ended."""


@dataclass(frozen=True, slots=True)
class Press:
    """Keys, and the moment before them: a prompt, or a regular expression in the text since the last keys."""

    keys: str
    when: str = PROMPT


@dataclass(frozen=True, slots=True)
class Scene:
    """A command on a terminal. ``until`` is the moment of the picture."""

    name: str
    command: str
    presses: tuple[Press, ...] = ()
    until: str = END
    rows: int = 30
    fresh_home: bool = False
    """Whether no model is installed yet."""


def chat(name: str, command: str, *lines: str | Press, fresh_home: bool = False) -> Scene:
    """A chat; the picture is taken when it waits for the line after the last."""
    presses = tuple(line if isinstance(line, Press) else Press(line + ENTER) for line in lines)
    return Scene(name, command, presses, PROMPT, fresh_home=fresh_home)


SCENES = (
    chat(
        "drafts",
        "edgedec chat --temperature 0",
        "What is a prime number? Answer in one sentence.",
        "/trace on",
        "Repeat that sentence.",
    ),
    chat(
        "first-start",
        "edgedec chat --seed 1",
        "Why is the sky blue? Answer in two sentences.",
        fresh_home=True,
    ),
    chat(
        "code",
        "edgedec chat qwen2.5-coder-1.5b --temperature 0",
        "Write a Python function for the n-th Fibonacci number, then explain it in one sentence.",
    ),
    chat(
        "more",
        "edgedec chat --seed 1 --max-tokens 40",
        "Name the days of the week, and something to do on each.",
        "/more",
    ),
    chat(
        "ctrl-c",
        "edgedec chat --seed 1 --max-tokens 60",
        "Tell me a long story about a lighthouse keeper.",
        Press(CTRL_C, when="(?s)keeper.{200}"),
        "Give that story a title.",
    ),
    Scene("plan", "edgedec plan smollm2-135m --memory 240MB"),
    Scene("list", "edgedec list --all", rows=40),
)
