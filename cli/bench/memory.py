"""``edgedec bench memory``: peaks of memory beside budgets.

One program for all of memory: it runs sessions and compares their peaks with budgets and with each other. By
default these are random short sessions, with ``--chat`` one long session, with ``--peer`` one session of each
runtime. Speed within budgets belongs to ``bench drafts``, which compares replies.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgedec.bench.harness.memory_levels import Level
from edgedec.bench.harness.runtimes import OTHERS
from edgedec.cli import options as opt
from edgedec.cli.bench.options import (
    PeerOptions,
    check_task,
    count_option,
    input_option,
    last_options,
    levels_option,
    peer_options,
)
from edgedec.cli.bench.tasks import CHAT_TOKENS, DRAFTS, PEER_TOKENS
from edgedec.cli.command import Command
from edgedec.core.errors import UsageError

if TYPE_CHECKING:
    from edgedec.memory import KvType

SESSIONS, CHAT, PEERS = "random sessions", "a long chat", "a run with --peer"
_RUN = ("levels", "max_tokens", "context", "threads", "kv")
USED = {
    SESSIONS: ("repeat", "drafts", "longest", "seed", "save"),
    CHAT: (*_RUN, "turns", "drafts", "file", "kill", "seed"),
    PEERS: (*_RUN, "prompt_tokens", "gguf", "peer_pythons", "peers"),
}
_MODULES = {SESSIONS: "sessions", CHAT: "chat", PEERS: "peers"}


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryOptions(PeerOptions):
    repeat: int
    chat: bool
    drafts: tuple[str, ...]
    levels: tuple[Level, ...]
    max_tokens: int | None
    context: int | None
    kv: KvType
    longest: int
    seed: int
    turns: int
    file: Path | None
    save: Path | None
    kill: bool
    prompt_tokens: int

    @property
    def task(self) -> str:
        if self.chat and self.peers:
            raise UsageError("--chat and --peer are different tasks", hint="leave one out")
        return CHAT if self.chat else PEERS if self.peers else SESSIONS


@click.command(
    "memory",
    cls=Command,
    short_help="Peaks of random sessions, a long chat and peers.",
    epilog=opt.examples(
        "edgedec bench memory --repeat 200",
        "edgedec bench memory -m qwen2.5-coder-1.5b --draft auto --draft auto,smollm2-135m",
        "edgedec bench memory --repeat 20 --json | jq .measured_over_planned",
        "edgedec bench memory --chat --turns 200 --memory 230MB --kill",
        "edgedec bench memory -m model.gguf --peer llama.cpp,onnxruntime-genai --memory -65%",
    ),
)
@opt.model_option
@count_option("--repeat", "Random sessions.", 50)
@click.option("--chat", is_flag=True, help="Have one long chat instead.")
@peer_options(OTHERS)
@click.option(
    "--draft", "drafts", multiple=True, metavar="NAMES",
    help=f"Drafts to choose from; may be given several times (default: {', '.join(DRAFTS)}). "
    "With --chat one (default: auto).",
)  # fmt: skip
@levels_option
@click.option(
    "--max-tokens", type=click.IntRange(min=2), metavar="N",
    help=f"With --chat: longest reply (default: {CHAT_TOKENS}). With --peer: tokens decoded (default: "
    f"{PEER_TOKENS}).",
)  # fmt: skip
@click.option(
    "--context", type=click.IntRange(min=2), metavar="N",
    help="With --chat and --peer: tokens of context (default: the model's own limit; those in use).",
)  # fmt: skip
@opt.kv_option
@count_option("--longest", "Random sessions: tokens of the longest context.", 1024, least=256)
@click.option(
    "--seed", type=int, default=0, show_default=True, metavar="S",
    help="Seed of the random sessions, or of the turn of --kill.",
)  # fmt: skip
@click.option(
    "--save", type=click.Path(path_type=Path), metavar="FILE",
    help="Random sessions: append each when it ends; the same command continues from there.",
)  # fmt: skip
@count_option("--turns", "With --chat: turns of the user.", 200)
@input_option("With --chat: texts of the user, repeated; one per line, or questions as for bench drafts.")
@click.option(
    "--kill", is_flag=True,
    help="With --chat: have it again up to a random turn, save it, kill its process, continue in another.",
)  # fmt: skip
@count_option("--prompt-tokens", "With --peer: tokens of the prompt.", 512)
@last_options
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> None:
    """Run sessions in processes of their own, and compare peaks of memory with budgets and plans.

    By default sessions are random. Their budgets lie between a little less than the smallest that fits and a
    little more than any use. The kernel counts each peak. Where control groups can be made (Linux, as root or
    below a group that systemd delegated) it also ends processes that go over; otherwise a line gives the
    reason why not. The exit status is 10 if a session went over.

    With --chat: one chat of many turns in one process, with its memory after every turn and the time of a
    token. The oldest turns are dropped when the context is full. The peak of the ten turns up to turn 20 (or
    half of a shorter chat) is compared with that of the last ten, and the time of a token in the first
    quarter with the last at equal context. With --kill the exit status is 1 if replies after the restart
    differ.

    With --peer: each side alone loads the same weights, reads the same prompt and continues it, in a context
    of the same size. "peak" is VmHWM, pages of mapped files included; "mapped" and "private" are its parts
    after the reply. "charged" is the peak of a control group of that process: private memory and files of the
    model, also where they are read and not mapped, without libraries. "llama.cpp as mapped" runs without its
    faster copies of weights. --memory adds sides within budgets.

    Each task also prints the joules of a token that was decoded, prompts left out: measured where the machine
    has a meter, else an estimate (~). The two are never added up.
    """
    options = MemoryOptions(**given)
    check_task(ctx, options.task, USED)
    import_module(f"edgedec.cli.bench.tasks.{_MODULES[options.task]}").run(ctx, options)
