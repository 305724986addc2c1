"""Options that more than one command has."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import click

from edgedec.cli.command import TEXT, declared, option
from edgedec.cli.services import services
from edgedec.core.errors import BadFileError, NotFoundError, UsageError
from edgedec.core.progress import ignore
from edgedec.core.quick_dataclass import dataclass
from edgedec.core.units import parse_size
from edgedec.models.catalogue import DEFAULT_MODEL

if TYPE_CHECKING:
    from edgedec.core.cache_config import Device, KvChoice

MODEL, REPLY, COST, OUTPUT = "Model", "Reply", "Memory and speed", "Output"
"""Headings of options."""


def complete_model(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of models that begin so, for the shell: those installed, then the catalogue."""
    from edgedec.core.errors import EdgeDecError
    from edgedec.models import RECIPES, Store

    installed: list[str] = []
    with suppress(EdgeDecError):
        installed = [one.name for one in Store(notice=ignore).list()]
    return [name for name in dict.fromkeys([*installed, *RECIPES]) if name.startswith(incomplete)]


def _default_model() -> str:
    from edgedec.models.default_model import default_model

    return default_model(services(click.get_current_context()).store())


model_option = option(
    "-m", "--model", default=_default_model, show_default=DEFAULT_MODEL, metavar="NAME", heading=MODEL,
    shell_complete=complete_model,
    help="A name that `edgedec list --all` shows, owner/repo of the model hub, or a path. A missing model is "
    "pulled. `edgedec default` chooses the default.",
)  # fmt: skip

_KV_HELP = (
    "How the cache keeps keys and values: fp16 or int8. int8 takes about half the memory and is quicker in "
    "long contexts; its replies are not exactly those of fp16, and with and without drafts they are the same."
)
_KV_AUTO = " auto: int8 for a context of 8192 tokens or more, where a measurement finds it quicker here."


def kv_option_of(*kinds: str, text: str = _KV_HELP) -> Callable[[Any], Any]:
    """Return ``--kv`` with these choices."""
    return option(
        "--kv", type=click.Choice(kinds), default="fp16", show_default=True, metavar="KIND", heading=COST,
        rare=True, help=text,
    )  # fmt: skip


kv_option = kv_option_of("fp16", "int8", "auto", text=_KV_HELP + _KV_AUTO)


MOST_FILE_BYTES = 1_000_000


def read_template(ctx: click.Context, param: click.Parameter, path: Path | None) -> str | None:
    """Return the text of a chat template. Raises NotFoundError, BadFileError."""
    return None if path is None else read_text_file(path, "chat template")


def read_text_file(path: Path, what: str) -> str:
    """Return the text of a file that is a ``what``. Raises NotFoundError, BadFileError."""
    try:
        with path.open("rb") as stream:
            data = stream.read(MOST_FILE_BYTES + 1)
    except OSError as error:
        raise NotFoundError(f"{path} cannot be read: {error.strerror}", hint="name a text file") from error
    if len(data) > MOST_FILE_BYTES or not data.strip():
        raise BadFileError(f"{path} is no {what}: it is {'too long' if data.strip() else 'empty'}")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadFileError(f"{path} is not UTF-8 text (byte {error.start})") from error


_LEAST_BYTES, _GIGABYTES = 100_000, 24
"""Fewer bytes hold no model. So small a number without a unit was meant in MB, or in GB up to the other."""


class Size(click.ParamType[int]):
    """Bytes: ``600MB``, ``1.5GB``, ``512MiB``, or a number that is large enough for a model."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            count = parse_size(str(value))
        except UsageError as error:
            self.fail(str(error), param, ctx)
        if count < _LEAST_BYTES:
            unit = "GB" if count < _GIGABYTES else "MB"
            meant = f"; did you mean {count}{unit}?" if str(value).strip().isdecimal() and count else ""
            self.fail(f"{count} bytes are not enough for any model{meant}", param, ctx)
        return count


memory_option = option(
    "--memory", type=Size(), metavar="SIZE", heading=COST,
    help="Most memory that the whole process may take, such as 600MB; `edgedec plan` shows what fits.",
)  # fmt: skip

PREFIXES_VARIABLE = "EDGEDEC_PREFIXES"

prefixes_option = option(
    "--prefixes", envvar=PREFIXES_VARIABLE, type=Size(), metavar="SIZE", heading=COST, rare=True,
    help="Keep the KV cache of long prompts in so much of the disk, and read it in place of computing it. "
    "Its files tell the text of prompts.",
)  # fmt: skip

json_option = option("--json", "as_json", is_flag=True, heading=OUTPUT, help="Print one JSON object.")

threads_option = option(
    "--threads", type=click.IntRange(min=1), metavar="N", heading=COST,
    help="Threads to compute with, at most the usable cores (default: one per physical core).",
)  # fmt: skip

context_option = option(
    "--context", type=click.IntRange(min=2), metavar="N", heading=COST,
    help="Tokens that a conversation has room for (default: the model's own limit, at most 4096).",
)  # fmt: skip


def _drafters() -> str:
    from edgedec.drafters.registry import names

    return (
        f"Drafters that make replies quicker, and change none: auto, off, or by comma {names()} and models "
        "by name or path."
    )


draft_option = option(
    "--draft", default="auto", show_default=True, metavar="NAMES", heading=COST, help=_drafters
)


DEVICES = ("cpu", "gpu", "npu")
_LAYERS = re.compile(r"(\d{1,9})layers?")


class DeviceChoice(NamedTuple):
    """A device, the most bytes of a GPU that a model may take there, and the most layers; None: all."""

    device: Device = "cpu"
    memory: int | None = None
    layers: int | None = None

    def settings(self) -> dict[str, Any]:
        """Return the fields of ``RunConfig`` that say this."""
        return {"device": self.device, "device_memory": self.memory, "gpu_layers": self.layers}


class DeviceChoiceType(click.ParamType[DeviceChoice]):
    """A device, and bounds of a GPU behind colons: ``gpu``, ``gpu:2GB``, ``gpu:14layers``, or both."""

    name = "device"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> DeviceChoice:
        if isinstance(value, DeviceChoice):
            return value
        device, *bounds = str(value).split(":")
        layers = [found[1] for one in bounds if (found := _LAYERS.fullmatch(one))]
        sizes = [one for one in bounds if not _LAYERS.fullmatch(one)]
        if device not in DEVICES or (bounds and device != "gpu") or max(len(layers), len(sizes)) > 1:
            self.fail(f"{value!r:.40} is none of cpu, gpu, gpu:SIZE, gpu:14layers and npu", param, ctx)
        if layers and not int(layers[0]):
            self.fail(f"{value!r:.40} has no layer on the GPU", param, ctx)
        memory = Size().convert(sizes[0], param, ctx) if sizes else None
        return DeviceChoice(cast("Device", device), memory, int(layers[0]) if layers else None)


device_option = option(
    "--device", type=click.Choice(DEVICES), default="cpu", show_default=True, metavar="DEVICE",
    heading=COST, rare=True,
    help="Where the model runs: cpu, gpu, or npu for one that `edgedec export --for npu` made.",
)  # fmt: skip

device_choice_option = option(
    "--device", type=DeviceChoiceType(), default="cpu", show_default=True, metavar="DEVICE",
    heading=COST, rare=True,
    help="Where the model runs: cpu, gpu, gpu:2GB for at most so much of its memory, gpu:14layers for about "
    "the first 14 layers there and the others on the CPU, or npu for a model that `edgedec export --for npu` "
    "made.",
)  # fmt: skip

ENCODER = "all-minilm-l6-v2"
"""The encoder that chooses the part of a long prompt, where none is named."""
_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,3})?)%")


class Keep(NamedTuple):
    """The share of a long prompt that is read, and the encoder that chooses it."""

    share: float
    encoder: str = ENCODER


class KeepType(click.ParamType[Keep]):
    """A share in percent, and perhaps an encoder behind a colon: ``25%``, ``25%:embeddinggemma-300m``."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Keep:
        if isinstance(value, Keep):
            return value
        share, colon, encoder = str(value).partition(":")
        found = _PERCENT.fullmatch(share)
        if found is None or (colon and not encoder):
            meant = f"; did you mean {share}%?" if share.isascii() and share.isdecimal() else ""
            self.fail(f"{value!r:.40} is no share of a prompt, such as 25%{meant}", param, ctx)
        if not 0 < (percent := float(found[1])) <= 100:
            self.fail(f"a prompt cannot keep {share} of its text; use 1% to 100%", param, ctx)
        return Keep(percent / 100, encoder or ENCODER)


prompt_keep_option = option(
    "--prompt-keep", type=KeepType(), metavar="SHARE[:ENCODER]", heading=COST, rare=True,
    help="Lossy: read only this share of a long prompt, such as 25%: the lines and sentences that are "
    f"nearest to its question by the vectors of an encoder (default: {ENCODER}).",
)  # fmt: skip

context_weight_option = option(
    "--context-weight", type=click.FloatRange(min=0, min_open=True), metavar="A", heading=REPLY, rare=True,
    help="Lossy: reply by what the text before the question changes: logits with it count 1 + A times, less "
    "A times those of the question alone. 1 is a good start.",
)  # fmt: skip

lora_option = option(
    "--lora", multiple=True, metavar="FILE[:SCALE]", heading=MODEL, rare=True,
    help="Change the model by a LoRA adapter, a GGUF file or a directory of PEFT, at a scale (default: 1); "
    "may be given several times.",
)  # fmt: skip

switch_option = option(
    "--switch", metavar="SMALL", heading=COST, rare=True,
    help="Lossy: let this smaller model, by name or path, write where it is sure, and the model itself "
    "the rest.",
)  # fmt: skip

max_tokens_option = option(
    "--max-tokens", type=click.IntRange(min=1), metavar="N", heading=REPLY,
    help="Longest reply, in tokens (default: as far as the context reaches).",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class BatchSizeOptions:
    """Settings that decide how much memory a run takes, of one conversation or of several."""

    # fmt: off
    memory: int | None = declared(memory_option)
    context: int | None = declared(context_option)
    threads: int | None = declared(threads_option)
    draft: str = declared(draft_option)
    kv: KvChoice = declared(kv_option)
    device: DeviceChoice = declared(device_choice_option)
    lora: tuple[str, ...] = declared(lora_option)
    # fmt: on


@dataclass(frozen=True, slots=True)
class SizeOptions(BatchSizeOptions):
    """Settings that decide how much memory a run of one conversation takes."""

    # fmt: off
    switch: str | None = declared(switch_option)
    # fmt: on


@dataclass(frozen=True, slots=True)
class BatchReplyOptions:
    """Settings of a reply, or of each of several, apart from how it is drawn and computed."""

    # fmt: off
    system: str | None = declared(option(
        "--system", type=TEXT, metavar="TEXT", heading=REPLY,
        help="System message (needs a chat template).",
    ))
    max_tokens: int | None = declared(max_tokens_option)
    stops: tuple[str, ...] = declared(option(
        "--stop", "stops", type=TEXT, multiple=True, metavar="STRING", heading=REPLY, rare=True,
        help="End the reply before this text; may be given several times.",
    ))
    raw: bool = declared(option(
        "--raw", is_flag=True, heading=MODEL,
        help="Continue the text as it stands, without the chat template.",
    ))
    thinking: bool | None = declared(option(
        "--think/--no-think", "thinking", default=None, heading=REPLY,
        help="Let the model think before it answers, or not, where its chat template has a switch for it.",
    ))
    # fmt: on


@dataclass(frozen=True, slots=True)
class ReplyOptions(BatchReplyOptions):
    """Settings of a reply of one conversation, apart from how it is drawn and computed."""

    # fmt: off
    think_tokens: int | None = declared(option(
        "--think-tokens", type=click.IntRange(min=0), metavar="N", heading=REPLY, rare=True,
        help="Close the model's thought after N tokens, so that the answer begins.",
    ))
    template: str | None = declared(option(
        "--template", type=click.Path(path_type=Path), callback=read_template, metavar="FILE",
        heading=MODEL, rare=True, help="Use the chat template (Jinja) in this file, not the model's own.",
    ))
    # fmt: on
