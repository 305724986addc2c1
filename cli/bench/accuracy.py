"""``edgedec bench accuracy``: agreement with exact logits, right answers, facts found.

One program: EdgeDec with a setting that changes its predictions runs beside an exact side on the same input.
The task says how they are compared.
"""

from __future__ import annotations

from dataclasses import dataclass
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
    peer_options,
    save_option,
)
from edgedec.cli.bench.tasks import CONTEXT_TOKENS
from edgedec.cli.command import Command
from edgedec.core.errors import UsageError
from edgedec.core.when_full import LOSSY, WhenFull

if TYPE_CHECKING:
    from edgedec.memory import KvType

FAITHFUL, QUALITY, NEEDLE, SAMPLING = "faithful", "quality", "needle", "sampling"
_CACHE = ("kinds", "policies", "context")
USED = {
    FAITHFUL: (*_CACHE, "tokens", "window", "reference", "peers", "gguf", "peer_pythons"),
    QUALITY: (*_CACHE, "limit", "max_tokens", "system", "save"),
    NEEDLE: (*_CACHE, "tokens", "depths", "repeat"),
    SAMPLING: ("settings", "answers", "limit", "max_tokens"),
}
_TOKENS = {FAITHFUL: 2000, NEEDLE: 1500}


@dataclass(frozen=True, slots=True, kw_only=True)
class AccuracyOptions(PeerOptions):
    task: str
    files: tuple[Path, ...]
    kinds: tuple[KvType, ...]
    policies: tuple[WhenFull, ...]
    context: int | None
    tokens: int | None
    window: int
    reference: str
    limit: int | None
    max_tokens: int
    system: str | None
    save: Path | None
    depths: int
    repeat: int
    settings: tuple[str, ...]
    answers: bool

    @property
    def kv(self) -> KvType:
        """The one type of KV cache. Raises UsageError for several."""
        if len(self.kinds) > 1:
            raise UsageError(f"--task {self.task} takes one --kv")
        return self.kinds[0] if self.kinds else "fp16"

    @property
    def text_tokens(self) -> int:
        return self.tokens or _TOKENS[self.task]

    def check_context(self) -> None:
        """Raise UsageError for a policy without a size of the KV cache, or the other way round."""
        if bool(self.policies) != (self.context is not None):
            hint = "--when-full slide --context 256"
            raise UsageError("--when-full and --context belong together", hint=hint)


@click.command(
    "accuracy",
    cls=Command,
    short_help="Agreement, right answers, facts found, repetition.",
    epilog=opt.examples(
        "edgedec bench accuracy -m smollm2.gguf --input book.txt --input program.py",
        "edgedec bench accuracy -m q.gguf --input a.txt --reference transformers --peer llama.cpp --json",
        "edgedec bench accuracy -m gemma3-270m --input book.txt --kv int8 --reference fp16",
        "edgedec bench accuracy --input book.txt --reference fp16 --when-full speckv --context 256",
        "edgedec bench accuracy --task quality --input gsm8k.jsonl --limit 100 --kv fp16 --kv int8",
        "edgedec bench accuracy --task needle --input book.txt --context 512",
        "edgedec bench accuracy --task sampling --try greedy --try temperature=0.2,top_p=0.9",
        "edgedec bench accuracy --task sampling -m qwen2.5-coder-1.5b --answers --max-tokens 80",
    ),
)
@opt.model_option
@click.option(
    "--task", type=click.Choice([*USED]), default=FAITHFUL, show_default=True, metavar="NAME",
    help="faithful: predictions beside exact logits; quality: right answers; needle: facts in long texts; "
    "sampling: repetition by sampling setting.",
)  # fmt: skip
@input_option(
    "faithful, needle: UTF-8 text or .jsonl prompts, equal shares of several files; quality: questions in "
    "the format of GSM8K; sampling: a question per line, or .jsonl (default: questions of its own).",
    multiple=True,
)
@kv_types("Type of the KV cache, fp16 or int8. quality: the first is the base (default: both).", ())
@click.option(
    "--when-full", "policies", type=click.Choice(LOSSY), multiple=True, metavar="POLICY",
    help="Eviction policy, slide or speckv, with a KV cache of --context tokens (default of needle: each).",
)  # fmt: skip
@click.option(
    "--context", type=click.IntRange(min=16), metavar="N",
    help=f"Tokens of the KV cache for --when-full (default of needle: {CONTEXT_TOKENS}).",
)  # fmt: skip
@count_option("--limit", "quality, sampling: ask the first N questions (sampling: 16 without --answers).")
@count_option("--max-tokens", "quality, sampling: longest reply, in tokens.", 256)
@count_option("--tokens", "faithful: tokens compared (default: 2000); needle: tokens around a fact (1500).")
@count_option("--window", "faithful: tokens per pass; every window starts from an empty cache.", 512, least=2)
@click.option(
    "--reference", type=click.Choice([*REFERENCES, "fp16"]), default=REFERENCES[0], show_default=True,
    metavar="NAME",
    help="faithful: numpy or transformers, with float32 logits from the GGUF file; or fp16, EdgeDec with the "
    "KV cache in fp16.",
)  # fmt: skip
@peer_options(WITH_LOGITS)
@click.option("--system", metavar="TEXT", help="quality: system message.")
@save_option
@count_option("--depths", "needle: even depths, from the text's beginning to its end.", 5)
@count_option("--repeat", "needle: facts at each depth, each in another piece of the texts.", 4)
@click.option(
    "--try", "settings", multiple=True, metavar="SETTING",
    help="sampling: greedy, preset, or values by comma as in temperature=0.7,top_p=0.9; may be given several "
    "times (default: greedy and the model's preset).",
)  # fmt: skip
@click.option(
    "--answers", is_flag=True,
    help="sampling: count right answers to --input in the format of GSM8K (default: easy questions).",
)  # fmt: skip
@last_options
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> None:
    """Compare EdgeDec with an exact side on the same input.

    --task faithful: feed real text to both and compare every prediction. Prints how often the most probable
    next token is the same, and the mean KL divergence from the reference in nats. The weights are the same
    quantised ones, so differences come from arithmetic, from --kv int8 or from eviction.

    --task quality: ask questions with one right number for an answer, greedily, and count right replies.
    Every side is compared with the first one, question by question, by McNemar's exact test. Ctrl-C ends it
    with the replies that there are.

    --task needle: put a fact into a long text ("The secret number of Oslo is 47121."), ask for it at the end,
    and count. One side has room for the whole text; the others evict tokens by a policy.

    --task sampling: ask questions under several sampling settings, each in a conversation of its own. Each
    setting has its share of repeated 4-grams, the replies that end in a loop and those that reach the limit,
    and the mean log-probability of a token under the model at temperature 1. Question n has seed n - 1.

    Each task also prints the joules of a token that was decoded (faithful: that was read): measured where the
    machine has a meter, else an estimate (~). The two are never added up.
    """
    options = AccuracyOptions(**given)
    check_task(ctx, options.task, USED)
    if not options.files and options.task != SAMPLING:
        raise UsageError("this study reads a file", hint="name it with --input FILE")
    import_module(f"edgedec.cli.bench.tasks.{options.task}").run(ctx, options)
