"""Options that more than one command has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from edgedec.core.errors import BadFileError, NotFoundError, UsageError
from edgedec.core.units import parse_size
from edgedec.models.catalogue import DEFAULT_MODEL
from edgedec.sampling.named import SamplingParams

F = TypeVar("F", bound=Callable[..., Any])

model_option = click.option(
    "-m", "--model", default=DEFAULT_MODEL, show_default=True, metavar="NAME",
    help="A model's name, owner/repo of the model hub, a bundle, a GGUF file or a Hugging Face directory; a "
    "path that exists comes first, and what is missing is pulled.",
)  # fmt: skip

kv_option = click.option(
    "--kv", type=click.Choice(["fp16", "int8"]), default="fp16", show_default=True,
    metavar="KIND",
    help="How the cache keeps keys and values: fp16 or int8. int8 takes about half the memory; its replies "
    "are not exactly those of fp16, and with and without drafts they are the same.",
)  # fmt: skip


MOST_TEMPLATE_BYTES = 1_000_000


def read_template(ctx: click.Context, param: click.Parameter, path: Path | None) -> str | None:
    """Return the text of a chat template. Raises NotFoundError, BadFileError."""
    if path is None:
        return None
    try:
        with path.open("rb") as stream:
            data = stream.read(MOST_TEMPLATE_BYTES + 1)
    except OSError as error:
        raise NotFoundError(f"{path} cannot be read: {error.strerror}", hint="name a text file") from error
    if len(data) > MOST_TEMPLATE_BYTES or not data.strip():
        raise BadFileError(f"{path} is no chat template: it is {'too long' if data.strip() else 'empty'}")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadFileError(f"{path} is not UTF-8 text (byte {error.start})") from error


class Size(click.ParamType[int]):
    """Bytes: ``600MB``, ``1.5GB``, ``512MiB``, or a number."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return parse_size(str(value))
        except UsageError as error:
            self.fail(str(error), param, ctx)


memory_option = click.option(
    "--memory", type=Size(), metavar="SIZE",
    help="Most memory that this process may take, such as 600MB: weights, cache, drafters, Python and all. "
    "What does not fit is given up in a stated order, and said; see edgedec plan.",
)  # fmt: skip

plot_option = click.option(
    "--plot", type=click.Path(path_type=Path), metavar="FILE", help="Draw the result (png, svg, pdf)."
)

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")

_SAMPLING = (
    click.option(
        "--greedy", is_flag=True,
        help="Always take the most probable token; the same as --temperature 0.",
    ),
    click.option(
        "--temperature", type=float, metavar="T",
        help="1 draws from the model's own distribution, less than 1 prefers probable tokens, 0 is greedy. "
        "Values not given here are those of the model's preset, which list -v shows; with 0 they are off.",
    ),
    click.option("--top-k", type=int, metavar="K", help="Keep the K most probable (0: all)."),
    click.option(
        "--top-p", type=float, metavar="P",
        help="Keep the most probable tokens that together reach P (1: all).",
    ),
    click.option(
        "--min-p", type=float, metavar="P",
        help="Keep tokens at least P times as probable as the best one (0: all).",
    ),
    click.option(
        "--top-n-sigma", type=float, metavar="N",
        help="Keep tokens whose logit is within N standard deviations of the best one (0: all).",
    ),
    click.option(
        "--repetition-penalty", type=float, metavar="R",
        help="Above 1, tokens that have occurred become less probable (1: off).",
    ),
    click.option(
        "--seed", type=int, metavar="S",
        help="Same seed, prompt and settings: same tokens, with any number of threads. Default: 0; a chat "
        "draws one, which /stats shows.",
    ),
)  # fmt: skip

threads_option = click.option(
    "--threads", type=click.IntRange(min=1), metavar="N",
    help="Threads to compute with, at most the usable cores (default: one per physical core).",
)  # fmt: skip

context_option = click.option(
    "--context", type=click.IntRange(min=2), metavar="N",
    help="Tokens the cache can hold (default: what the model was made for, within reason).",
)  # fmt: skip

draft_option = click.option(
    "--draft", default="auto", show_default=True, metavar="NAMES",
    help="Draft tokens, check several in a pass where that is quicker: auto, off, or by comma drafters "
    "(lookup, recycling, head; exit, skip: the model's own layers) and models, by name or path. Same reply.",
)  # fmt: skip


def read_thresholds(
    ctx: click.Context, param: click.Parameter, text: str | None
) -> tuple[float, float] | None:
    """Return two thresholds in bits. Raises UsageError."""
    if text is None:
        return None
    try:
        low, high = map(float, text.split(","))
    except ValueError as error:
        raise UsageError(
            f"{text[:40]!r} is not two thresholds", hint="give two numbers of bits, such as 0.4,0.8"
        ) from error
    return low, high


switch_options = (
    click.option(
        "--switch", metavar="SMALL",
        help="Lossy: let this smaller model, by name or path, write where it is sure, and the model itself "
        "the rest.",
    ),
    click.option(
        "--switch-at", callback=read_thresholds, metavar="LOW,HIGH",
        help="Mean entropy of the last five tokens, in bits: the small model hands over above HIGH, the "
        "large one hands back below LOW. Default: 0.5,1.",
    ),
)  # fmt: skip

large_options = (
    click.option(
        "--large", metavar="URL",
        help="Lossy: let a large model behind this OpenAI-compatible server write where the model is unsure. "
        "The conversation is sent there. EDGEDEC_REMOTE_KEY holds the key.",
    ),
    click.option(
        "--large-model", metavar="NAME", help="The model of that server (default: the only one it has)."
    ),
)  # fmt: skip

draft_tokens_option = click.option(
    "--draft-tokens", type=click.IntRange(1, 15), default=15, show_default=True, metavar="N",
    help="Most tokens drafted for one pass.",
)  # fmt: skip

objective_option = click.option(
    "--objective", type=click.Choice(["time", "energy"]), default="time", show_default=True, metavar="AIM",
    help="Draft for the least time, or for the fewest joules a token (energy): measured where this machine "
    "has a meter, by an estimate otherwise. Same reply.",
)  # fmt: skip

_RUNTIME = (
    click.option(
        "--max-tokens", type=click.IntRange(min=1), metavar="N",
        help="Longest reply, in tokens (default: as far as the context reaches).",
    ),
    click.option(
        "--stop", "stops", multiple=True, metavar="STRING",
        help="End the reply before this text; may be given several times.",
    ),
    click.option("--system", metavar="TEXT", help="System message (needs a chat template)."),
    threads_option,
    context_option,
    kv_option,
    memory_option,
    draft_option,
    draft_tokens_option,
    objective_option,
    *switch_options,
    *large_options,
    click.option(
        "--history/--no-history", default=False, show_default=True,
        help="Keep text of prompts and replies on this disk for the next start: prompts typed in a chat, and "
        "what drafters learned. edgedec clean --history removes it.",
    ),
)  # fmt: skip


raw_option = click.option(
    "--raw", is_flag=True, help="Continue the text as it stands, without the chat template."
)

template_option = click.option(
    "--template", type=click.Path(path_type=Path), callback=read_template, metavar="FILE",
    help="Use the chat template (Jinja) in this file, not the model's own.",
)  # fmt: skip


def reply_options(command: F) -> F:
    """Everything that says how a reply is drawn and computed."""
    for option in reversed((*_RUNTIME, *_SAMPLING)):
        command = option(command)
    return command


def plan_options(command: F) -> F:
    """Add those of ``reply_options`` that change how much memory a run takes."""
    size = (threads_option, context_option, kv_option, memory_option, draft_option, draft_tokens_option)
    for option in reversed((*size, switch_options[0], *_SAMPLING[:-1])):  # all but the seed
        command = option(command)
    return command


def sampling_named(options: dict[str, Any]) -> SamplingParams:
    """Return the sampling values that a command's options name; greedy decoding is temperature 0.

    Raises UsageError for options that contradict each other.
    """
    named = {
        name: options[name] for name in SamplingParams.__dataclass_fields__ if options.get(name) is not None
    }
    if options.get("greedy") and named.get("temperature"):
        raise UsageError(
            f"--greedy contradicts --temperature {named['temperature']:g}", hint="leave one of them out"
        )
    return SamplingParams(**(named | {"temperature": 0.0} if options.get("greedy") else named))


def examples(*lines: str) -> str:
    """An epilog that shows ``lines`` as they are, one below the other."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
