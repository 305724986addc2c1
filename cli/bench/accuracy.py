"""``edgedec bench accuracy``: agreement with exact logits, right answers, facts found.

One program: EdgeDec with a setting that changes its predictions runs beside an exact side on the same input.
The task says how they are compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgedec.bench.harness.runtimes import REFERENCES, WITH_LOGITS, OwnRun
from edgedec.cli import options as opt
from edgedec.cli import screen
from edgedec.cli.bench import inputs
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
from edgedec.cli.opening import open_model
from edgedec.cli.rare import Command
from edgedec.core.errors import UsageError
from edgedec.core.units import size
from edgedec.core.when_full import LOSSY, WhenFull
from edgedec.sampling import SamplingParams

if TYPE_CHECKING:
    from edgedec.bench.harness.replies import ReplySide, ReplyStudy
    from edgedec.bench.studies.faithful import FaithfulReport, TextWindow
    from edgedec.bench.studies.needle import NeedleResult, NeedleTrial
    from edgedec.bench.studies.quality import MathProblem, SideQuality
    from edgedec.core.manifest import Manifest
    from edgedec.memory import KvType

FAITHFUL, QUALITY, NEEDLE = "faithful", "quality", "needle"
USED = {
    FAITHFUL: ("tokens", "window", "reference", "peers", "gguf", "peer_pythons"),
    QUALITY: ("limit", "max_tokens", "system", "save"),
    NEEDLE: ("tokens", "depths", "repeat"),
}
_TOKENS = {FAITHFUL: 2000, NEEDLE: 1500}
_NEEDLE_CONTEXT = 512


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
    short_help="Agreement, right answers and facts found.",
    epilog=opt.examples(
        "edgedec bench accuracy -m smollm2.gguf --input book.txt --input program.py",
        "edgedec bench accuracy -m q.gguf --input a.txt --reference transformers --peer llama.cpp --json",
        "edgedec bench accuracy -m gemma3-270m --input book.txt --kv int8 --reference fp16",
        "edgedec bench accuracy --input book.txt --reference fp16 --when-full speckv --context 256",
        "edgedec bench accuracy --task quality --input gsm8k.jsonl --limit 100 --kv fp16 --kv int8",
        "edgedec bench accuracy --task needle --input book.txt --context 512",
    ),
)
@opt.model_option
@click.option(
    "--task", type=click.Choice([FAITHFUL, QUALITY, NEEDLE]), default=FAITHFUL, show_default=True,
    metavar="NAME", help="faithful: predictions beside exact logits; quality: right answers; needle: facts.",
)  # fmt: skip
@input_option(
    "faithful, needle: UTF-8 text or .jsonl prompts, equal shares of several files; quality: questions in "
    "the format of GSM8K.",
    multiple=True,
)
@kv_types("Type of the KV cache, fp16 or int8. quality: the first is the base (default: both).", ())
@click.option(
    "--when-full", "policies", type=click.Choice(LOSSY), multiple=True, metavar="POLICY",
    help="Eviction policy, slide or speckv, with a KV cache of --context tokens (default of needle: each).",
)  # fmt: skip
@click.option(
    "--context", type=click.IntRange(min=16), metavar="N",
    help=f"Tokens of the KV cache for --when-full (default of needle: {_NEEDLE_CONTEXT}).",
)  # fmt: skip
@count_option("--limit", "quality: ask the first N questions.")
@count_option("--max-tokens", "quality: longest reply, in tokens.", 256)
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
    """
    options = AccuracyOptions(**given)
    check_task(ctx, options.task, USED)
    if not options.files:
        raise UsageError("this study reads a file", hint="name it with --input FILE")
    {FAITHFUL: _faithful, QUALITY: _quality, NEEDLE: _needle}[options.task](ctx, options)


def _faithful(ctx: click.Context, options: AccuracyOptions) -> None:
    from edgedec.bench.harness.runtimes import reference_side
    from edgedec.bench.studies.faithful import compare_logits
    from edgedec.core.manifest import Manifest
    from edgedec.memory import kv_bytes

    if len(options.policies) > 1:
        raise UsageError("--task faithful takes one --when-full")
    options.check_context()
    names = options.peer_names(WITH_LOGITS, "does not give its logits")
    bundle = inputs.find_bundle(ctx, options.model)
    manifest = Manifest.load(bundle)
    inputs.check_context(manifest, options.window)
    windows = _windows(bundle, manifest, options)
    exact = OwnRun(options.chosen_threads, inputs.home(ctx), options.window)
    when_full = options.policies[0] if options.policies else None
    run = replace(exact, context=options.context or options.window, kv=options.kv, when_full=when_full)
    if options.reference == "fp16":
        reference = exact.side(bundle, options.reference)
    else:
        peers = inputs.peer_run(ctx, options, manifest, options.window)
        reference = reference_side(options.reference, peers)
    sides = [run.side(bundle)]
    sides += inputs.peer_sides(ctx, options, manifest, names, context=options.window, all_rows=True)
    with inputs.steps() as progress:
        report = compare_logits(reference, sides, windows, progress)
    per_token = kv_bytes(manifest.spec, 1, options.kv)
    if options.as_json:
        facts = {"model": manifest.name, "kv": options.kv, "kv_bytes_per_token": per_token}
        facts |= {"when_full": when_full, "context": options.context}
        screen.show_json({**facts, **report.as_json()})
    else:
        _show_faithful(report, manifest.name)
        if manifest.kind == "edgedec":
            click.echo(f"KV cache of EdgeDec in {options.kv}: {size(per_token)} a token")


def _windows(bundle: Path, manifest: Manifest, options: AccuracyOptions) -> list[TextWindow]:
    from edgedec.bench.harness.texts import read_text
    from edgedec.bench.studies.faithful import windows_of
    from edgedec.text.tokenizer import Tokenizer

    tokenizer = Tokenizer.load(bundle, manifest.tokenizer)
    bos = manifest.tokenizer.bos_id if manifest.tokenizer.add_bos else None
    tokens, files = options.text_tokens, options.files
    windows = []
    for index, path in enumerate(files):
        share = tokens // len(files) + (index < tokens % len(files))
        ids = tokenizer.encode(read_text(path), add_bos=False)
        if len(ids) < share:
            raise UsageError(
                f"{path} has {len(ids)} tokens, and {share} are wanted",
                hint="give more text, or less --tokens",
            )
        windows += windows_of(ids[:share], options.window, bos)
    return windows


def _show_faithful(report: FaithfulReport, model: str) -> None:
    from edgedec.cli.bench.tables import new_table, wide_console

    table = new_table(("", "same top-1", "mean KL", "median", "99 %", "worst", "perplexity"))
    positions, expected = 0, 0.0
    for name, divergence in report.sides.items():
        facts = divergence.as_json()
        positions, expected = int(facts["positions"]), facts["reference_perplexity"]
        kl = [f"{facts[key]:.2e}" for key in ("kl_mean", "kl_median", "kl_p99", "kl_max")]
        table.add_row(name, f"{facts['top1_agreement']:.2%}", *kl, f"{facts['perplexity']:.4f}")
    kind = "KV cache in fp16" if report.reference == "fp16" else "float32"
    console = wide_console()
    console.print(
        f"{model}, {positions} positions in windows of {report.window}; reference"
        f" {report.versions[report.reference]}, {kind}, perplexity {expected:.4f}",
        soft_wrap=True,
    )
    console.print(table)


@dataclass(frozen=True, slots=True)
class QualityWay:
    """One side of ``quality``: type and tokens of its KV cache, and the eviction policy."""

    kv: KvType
    context: int
    when_full: WhenFull | None = None

    @property
    def label(self) -> str:
        return f"{self.kv} {self.when_full} {self.context}" if self.when_full else self.kv

    def nbytes(self, manifest: Manifest) -> dict[str, int]:
        from edgedec.memory import kv_bytes

        each, whole = (kv_bytes(manifest.spec, slots, self.kv) for slots in (1, self.context))
        return {"kv_bytes_per_token": each, "kv_cache_bytes": whole}


def _quality(ctx: click.Context, options: AccuracyOptions) -> None:
    from edgedec.bench.harness.journal import Journal, digest
    from edgedec.bench.harness.replies import collect_replies
    from edgedec.bench.studies.quality import compared, read_problems
    from edgedec.core.manifest import Manifest

    options.check_context()
    if len(options.files) > 1:
        raise UsageError("--task quality takes one --input")
    problems = read_problems(options.files[0])[: options.limit]
    bundle = inputs.find_bundle(ctx, options.model)
    manifest = Manifest.load(bundle)
    study, longest, sinks = _quality_study(bundle, manifest, problems, options)
    inputs.check_context(manifest, longest)
    ways = _quality_ways(options, longest)
    run = OwnRun(options.chosen_threads, inputs.home(ctx), draft="auto", sinks=sinks)
    sides = _quality_sides(bundle, run, ways)
    conditions = {**inputs.conditions(options, manifest, options.files[0]), "system": options.system}
    conditions |= {"max_tokens": options.max_tokens, "base": ways[0].kv}
    journal, stopped = Journal.resume(conditions, options.save), False
    try:
        with inputs.steps() as progress:
            collect_replies(sides, study, journal, progress)
    except KeyboardInterrupt:
        stopped = True
    decode = inputs.load_text_parts(bundle, manifest)[0].decode
    names = [side.name for side in sides]
    count, found = compared(problems, journal, names, decode=decode, ends=manifest.spec.eos_ids)
    report = dict(zip(ways, found.values(), strict=True))
    if options.as_json:
        facts = {"model": manifest.name, "conditions": conditions, "hash": digest(conditions)}
        shown = {way.label: {**one.as_json(), **way.nbytes(manifest)} for way, one in report.items()}
        screen.show_json({**facts, "questions": len(problems), "answered": count, "sides": shown})
    else:
        _show_quality(f"{manifest.name}, {count} of {len(problems)} questions", report, manifest)
    if stopped:
        raise KeyboardInterrupt


def _quality_ways(options: AccuracyOptions, longest: int) -> list[QualityWay]:
    """Return the sides, first those with room for the ``longest`` question and reply."""
    kinds: tuple[KvType, ...] = options.kinds or ("fp16", "int8")
    exact = [QualityWay(kv, longest) for kv in dict.fromkeys(kinds)]
    policies = dict.fromkeys(options.policies)
    small = [QualityWay(way.kv, options.context or longest, one) for one in policies for way in exact]
    return [*exact, *small]


def _quality_study(
    bundle: Path, manifest: Manifest, problems: Sequence[MathProblem], options: AccuracyOptions
) -> tuple[ReplyStudy, int, int]:
    """Return the study, the tokens of the longest question and reply, and those before a question."""
    from edgedec.bench.harness.chat_prompts import ChatPrompts
    from edgedec.bench.harness.questions import Question
    from edgedec.bench.harness.replies import ReplyStudy
    from edgedec.session.prompt import Message, Prompts

    system = options.system
    if system and not manifest.tokenizer.chat_template:
        raise UsageError(f"{manifest.name} has no chat template, so no system message either")
    tokenizer, template = inputs.load_text_parts(bundle, manifest)
    ends = tuple(manifest.spec.eos_ids)

    def script() -> ChatPrompts:
        return ChatPrompts(tokenizer, template, ends, system)

    builder, before = Prompts(tokenizer, template), [Message("system", system)] if system else []
    first = [*before, Message("user", problems[0].text)]
    sinks = builder.preamble(first, builder.build(first))
    questions = tuple(Question(one.key, "gsm8k", (one.text,)) for one in problems)
    longest = max(len(script().prompt(one.text)) for one in problems) + options.max_tokens
    return ReplyStudy(questions, script, options.max_tokens, ends), longest, sinks


def _quality_sides(bundle: Path, run: OwnRun, ways: Sequence[QualityWay]) -> list[ReplySide]:
    """Return a process for each side. Drafts change no reply and save time."""
    from edgedec.bench.harness.replies import PLAIN, ReplySide

    sides: list[ReplySide] = []
    for way in ways:
        name = f"{PLAIN}+{way.label}" if sides else PLAIN
        process = replace(run, context=way.context, kv=way.kv, when_full=way.when_full).side(bundle, name)
        sides.append(ReplySide(name, process, run.draft, {"sampling": asdict(SamplingParams())}))
    return sides


def _show_quality(title: str, sides: Mapping[QualityWay, SideQuality], manifest: Manifest) -> None:
    from edgedec.cli.bench.tables import new_table, wide_console

    headings = ("", "right", "both", "only base", "only this", "neither", "p", "same reply", "cut", "cache")
    table = new_table(headings)
    for number, (way, side) in enumerate(sides.items()):
        pair = side.paired
        counts = pair.both, pair.base_only, pair.side_only, pair.neither
        cells = [*map(str, counts), f"{pair.p_value:.3g}", str(side.identical)]
        share = f"{sum(side.right) / max(len(side.right), 1):.1%} ({sum(side.right)})"
        held = size(way.nbytes(manifest)["kv_cache_bytes"])
        table.add_row(way.label, share, *(cells if number else [""] * 6), str(side.cut), held)
    console = wide_console()
    console.print(f"{title}; compared with the first, p: McNemar, exact; cut: without an end token")
    console.print(table)


def _needle(ctx: click.Context, options: AccuracyOptions) -> None:
    from edgedec.bench.harness.texts import read_text
    from edgedec.bench.studies.needle import FULL, REPLY_TOKENS, find_needles, prompt_of, trials_of
    from edgedec.core.manifest import Manifest
    from edgedec.runtime.config import RunConfig
    from edgedec.text.codec import Codec

    context = options.context or _NEEDLE_CONTEXT
    bundle = inputs.find_bundle(ctx, options.model)
    manifest = Manifest.load(bundle)
    codec = Codec(*inputs.load_text_parts(bundle, manifest))
    texts = [read_text(path) for path in options.files]
    trials = trials_of(texts, codec.tokenizer, options.text_tokens, options.depths, options.repeat)
    longest = max(len(prompt_of(trial, codec)[0]) for trial in trials) + REPLY_TOKENS
    inputs.check_context(manifest, longest)
    exact = RunConfig(threads=options.threads, context=longest, kv=options.kv, draft="off")
    sides: dict[str, NeedleResult] = {}
    with inputs.steps() as progress:
        sides[FULL] = find_needles(open_model(ctx, str(bundle), exact), FULL, trials, progress)
        for way in dict.fromkeys(options.policies or LOSSY):
            small = replace(exact, context=context, when_full=way)
            sides[way] = find_needles(open_model(ctx, str(bundle), small), way, trials, progress)
    if options.as_json:
        facts = {"model": manifest.name, "kv": options.kv, "longest": longest}
        facts |= {"tokens": options.text_tokens}
        shown = {way: found.as_json(trials) for way, found in sides.items()}
        screen.show_json({**facts, "context": context, "sides": shown})
    else:
        title = f"{manifest.name}: facts found by their depth; a KV cache of {context} tokens, or full"
        _show_needle(sides, trials, title)


def _show_needle(sides: Mapping[str, NeedleResult], trials: Sequence[NeedleTrial], title: str) -> None:
    from edgedec.cli.bench.tables import new_table, wide_console

    depths = sorted({trial.depth for trial in trials})
    table = new_table(("", "found", *(f"at {depth:.0%}" for depth in depths), "evicted", "time"))
    for way, found in sides.items():
        counts = [str(found.at(depth, trials)) for depth in depths]
        evicted = f"{found.evicted} tokens" if found.evicted else "-"
        table.add_row(way, f"{sum(found.right)} of {len(trials)}", *counts, evicted, f"{found.seconds:.1f} s")
    console = wide_console()
    console.print(title)
    console.print(table)
