"""``edgedec bench accuracy``: agreement with exact logits, right answers, structured output.

EdgeDec with a setting that changes its predictions runs beside an exact side on the same input. The task says
how they are compared.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgedec.bench.harness.runtimes import REFERENCES, WITH_LOGITS
from edgedec.cli import options as opt
from edgedec.cli.bench.options import (
    PeerOptions,
    check_task,
    count_option,
    input_option,
    kv_types,
    last_options,
    peer_option,
    save_option,
)
from edgedec.cli.command import new_command
from edgedec.core.cache_config import LOSSY, WhenFull
from edgedec.core.errors import UsageError
from edgedec.core.quick_dataclass import dataclass

if TYPE_CHECKING:
    from edgedec.memory import KvType

FAITHFUL, QUALITY = "faithful", "quality"
STRUCTURED, EVERYDAY = "structured", "everyday"
USED = {
    FAITHFUL: ("files", "policies", "tokens", "reference", "peers"),
    QUALITY: ("files", "policies", "limit", "save"),
    STRUCTURED: ("tokens", "limit"),
    EVERYDAY: ("tokens", "limit"),
}
_TOKENS = {FAITHFUL: 2000, STRUCTURED: 64, EVERYDAY: 700}


@dataclass(frozen=True, slots=True, kw_only=True)
class AccuracyOptions(PeerOptions):
    task: str
    files: tuple[Path, ...]
    kinds: tuple[KvType, ...]
    policies: tuple[WhenFull, ...]
    tokens: int | None
    reference: str
    limit: int | None
    save: Path | None

    @property
    def kv(self) -> KvType:
        """The one type of KV cache. Raises UsageError for several."""
        if len(self.kinds) > 1:
            raise UsageError(f"--task {self.task} takes one --kv")
        return self.kinds[0] if self.kinds else "fp16"

    @property
    def text_tokens(self) -> int:
        return self.tokens or _TOKENS[self.task]


@new_command(
    "accuracy",
    "edgedec bench accuracy -m smollm2.gguf --input book.txt --input program.py",
    "edgedec bench accuracy -m q.gguf --input a.txt --reference transformers --peer llama.cpp --json",
    "edgedec bench accuracy -m gemma3-270m --input book.txt --kv int8 --reference fp16",
    "edgedec bench accuracy --input book.txt --reference fp16 --when-full speckv",
    "edgedec bench accuracy --task quality --input gsm8k.jsonl --limit 100 --kv fp16 --kv int8",
    "edgedec bench accuracy --task structured --limit 90",
    "edgedec bench accuracy --task everyday -m qwen2.5-coder-0.5b",
)
@opt.model_option
@click.option(
    "--task", type=click.Choice([*USED]), default=FAITHFUL, show_default=True, metavar="NAME",
    help="faithful: predictions beside exact logits; quality: right answers; "
    "structured: replies under JSON schemas; everyday: replies that end and are right.",
)  # fmt: skip
@input_option(
    "faithful: UTF-8 text or .jsonl prompts, equal shares of several files; quality: questions in "
    "the format of GSM8K.",
    multiple=True,
)
@count_option(
    "--limit",
    "quality: ask the first N questions; structured: N schemas (45); everyday: N prompts (40).",
)
@count_option(
    "--tokens",
    "faithful: tokens compared (default: 2000); most tokens of a reply: structured (64), everyday (700).",
)
@kv_types("Type of the KV cache, fp16 or int8. quality: the first is the base (default: both).", ())
@click.option(
    "--when-full", "policies", type=click.Choice(LOSSY), multiple=True, metavar="POLICY",
    help="Eviction policy, slide or speckv, with a KV cache for half of the tokens.",
)  # fmt: skip
@click.option(
    "--reference", type=click.Choice([*REFERENCES, "fp16"]), default=REFERENCES[0], show_default=True,
    metavar="NAME",
    help="faithful: numpy or transformers, with float32 logits from the GGUF file; or fp16, EdgeDec with the "
    "KV cache in fp16.",
)  # fmt: skip
@peer_option(WITH_LOGITS)
@save_option
@last_options
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> None:
    """Compare EdgeDec with an exact side on the same input.

    --task faithful: feed real text to both, in windows of 512 tokens that begin with an empty KV cache, and
    compare every prediction. Prints how often the most probable next token is the same, and the mean KL
    divergence from the reference in nats. The weights are the same quantised ones, so differences come from
    arithmetic, from --kv int8 or from eviction.

    --task quality: ask questions with one right number for an answer, greedily, and count right replies.
    Every side is compared with the first one, question by question, by McNemar's exact test. Ctrl-C ends it
    with the replies that there are.

    --task structured: ask for examples of JSON schemas of 15 kinds, greedily, with and without drafts. Prints
    how many schemas are accepted, the time to compile one, whole and valid replies, drafted tokens, and the
    processor time of a token beside that of free text. Exit status 1 if a reply with drafts differs.

    --task everyday: ask 40 prompts as people type them, with the values that the model comes with, and count
    the replies that end by themselves and those that are right, where one answer is. This judged the default.

    The first two also print the joules of a token that was decoded (faithful: that was read): measured
    where the machine has a meter, else an estimate (~).
    """
    options = AccuracyOptions(**given)
    check_task(ctx, options.task, USED)
    if "files" in USED[options.task] and not options.files:
        raise UsageError("this study reads a file", hint="name it with --input FILE")
    import_module(f"edgedec.cli.bench.tasks.{options.task}").run(ctx, options)
