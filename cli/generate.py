"""``edgedec generate``: one prompt, one answer."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import click

from edgedec.cli import options as opt
from edgedec.cli import screen, text_input
from edgedec.cli import trace as tracing
from edgedec.cli.command import TEXT, declared, new_command, option, taking
from edgedec.cli.cut import Limits
from edgedec.cli.form import FormOptions, say_law
from edgedec.cli.interrupts import interrupts_to
from edgedec.cli.opening import open_model, run_config, say_overrun, without_template
from edgedec.cli.positional import PROMPT, one_prompt
from edgedec.cli.progress import notice
from edgedec.cli.sampling_options import SamplingOptions
from edgedec.cli.window import view
from edgedec.core.cache_config import LOSSY, STOP, WhenFull
from edgedec.core.errors import UsageError
from edgedec.core.quick_dataclass import dataclass
from edgedec.system.process import age_s, unseen
from edgedec.text.infill import Infill

if TYPE_CHECKING:
    from edgedec.api import Model
    from edgedec.cli.prompt_keep import KeptPrompt
    from edgedec.grammar import GrammarSpec
    from edgedec.session.chat import Chat
    from edgedec.session.message import AboutText
    from edgedec.session.prompt import RawText
    from edgedec.session.reply import Reply

_HELP = """Answer one prompt and stop.

Without PROMPT it is read from standard input. With PROMPT a file or pipe at standard input comes first,
then a blank line and PROMPT. With -p standard input is not read, which suits a loop in a script.
\f

The prompt is one user turn through the model's chat template. With --raw, or for a model without a
template, it is text to be continued. The answer is streamed to standard output: on a terminal as a chat
shows it, in a pipe as it is. It may fill the context, unless it goes round in circles; where that, the
context or --max-tokens cuts it, a line on standard error says so.

With --json nothing is streamed. One object follows, with text, tokens (ids, the end token included),
finish_reason (stop, length, context or loop) and stats. There, time_to_first_token_s counts from the
start of the process, and load_s is the part of it that opening the model took.

With --when-full slide or speckv a full context ends no reply, and prompts may be longer than it. A
quarter of the KV cache is evicted at a time, but for the first tokens. The model no longer sees evicted
tokens; stats say so, lossy and evicted_tokens.

With --prompt-keep 25% a prompt of more than 8,000 characters, about 2,000 tokens, is made so short before
the model reads it. An encoder scores its lines and sentences; its question, which is PROMPT behind a file or
the last paragraph, and a short first paragraph stay whole. The model does not see the rest: a line says
so, and stats have lossy, prompt_given_tokens and prompt_kept_tokens. Drafts change no token of the reply.

With --context-weight 1 a text counts for more than what the model knows. The question is PROMPT behind a
file or the last paragraph, the text is what comes before. The model reads the question with the text and
without it; each token is drawn from twice the logits with it less those without. A word that with the text
has less than a tenth of the best one's probability gains no more than the best one. A line says so, and
stats have lossy, context_weight and prompt_without_tokens. Drafts change no token of the reply.

With --form the reply has that form: only tokens that it allows are drawn.
Where --max-tokens or the context cuts the reply before it is whole, the command ends with an error.
Drafts change no token of it either.

With EDGEDEC_PREFIXES=SIZE the KV cache of long prompts is kept in so much of the disk: another prompt that
begins alike, also in another process, reads it in place of computing it.

With --trace a terminal shows each token in the colour of its drafter. Without colours the reply follows
once more on standard error, with | between rounds and drafted tokens in brackets. With --json there is
a field trace: token, text, source (null: the target itself), depth in the draft, round.
"""


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """Reports of a reply beside its text."""

    # fmt: off
    as_json: bool = declared(opt.json_option)
    logprobs: int | None = declared(option(
        "--logprobs", type=click.IntRange(min=1, max=20), metavar="N", heading=opt.OUTPUT, rare=True,
        help="With --json: report the log-probability of each token, and the N best.",
    ))
    trace: bool = declared(option(
        "--trace", is_flag=True, heading=opt.OUTPUT, rare=True,
        help="Show which tokens were drafted, and by which drafter.",
    ))
    # fmt: on


@new_command(
    "generate",
    'edgedec generate "Why is the sky blue?"',
    "edgedec generate < question.txt",
    'git diff | edgedec generate -m qwen2.5-coder-1.5b "Write a commit message for this."',
    'edgedec generate -m gemma3-270m --raw "Once upon a time" --max-tokens 100 --seed 7',
    'edgedec generate "List three colours." --json | jq .stats',
    'edgedec generate "Name a planet." --form planet.json',
    "edgedec generate -m qwen2.5-coder-0.5b --suffix '    return total' < begun.py",
    help=_HELP,
)
@opt.model_option
@click.argument("words", nargs=-1, type=TEXT, metavar=PROMPT)
@option(
    "-p", "--prompt", type=TEXT, metavar="TEXT", heading=opt.REPLY,
    help="The prompt, and nothing besides: standard input is left alone, unless TEXT is -.",
)  # fmt: skip
@option(
    "--suffix", type=TEXT, metavar="TEXT", heading=opt.REPLY, rare=True,
    help="Write the text between the prompt and TEXT, of models with tokens for that.",
)  # fmt: skip
@option(
    "--when-full", type=click.Choice([STOP, *LOSSY]), default=STOP, show_default=True, metavar="POLICY",
    heading=opt.COST, rare=True,
    help="When the context is full: stop; slide evicts the oldest tokens; speckv evicts the tokens that are "
    "attended to least. Both are lossy.",
)  # fmt: skip
@opt.prompt_keep_option
@opt.context_weight_option
@taking(
    reply=opt.ReplyOptions, sampling=SamplingOptions, size=opt.SizeOptions,
    form=FormOptions, report=ReportOptions,
)  # fmt: skip
@click.pass_context
def command(
    ctx: click.Context,
    /,
    model: str,
    words: tuple[str, ...],
    prompt: str | None,
    suffix: str | None,
    when_full: WhenFull,
    prompt_keep: opt.Keep | None,
    context_weight: float | None,
    reply: opt.ReplyOptions,
    sampling: SamplingOptions,
    size: opt.SizeOptions,
    form: FormOptions,
    report: ReportOptions,
) -> None:
    asked = one_prompt(words, prompt)
    config, spec = run_config(size, sampling.named()), form.spec()
    for one in spec.left_out if spec else ():
        notice(f"note: replies do not keep to {one}")
    config = replace(
        config,
        template=reply.template,
        thinking=reply.thinking,
        think_tokens=reply.think_tokens,
        structured=spec is not None,
        when_full=when_full,
        context_weight=context_weight,
        prefixes=os.environ.get(opt.PREFIXES_VARIABLE) or None,
    )
    text_input.check_prompt(asked)
    kept = None
    if prompt_keep:
        from edgedec.cli.prompt_keep import kept_prompt

        kept = kept_prompt(ctx, prompt_keep, (asked, bool(words)), size)
    about = None
    if context_weight is not None:
        from edgedec.cli.context_weight import read_about

        about = read_about(asked, after_input=bool(words), whole=kept.text if kept else None)
    given = _Asked(asked, bool(words), spec, suffix, kept, about)
    _answer(open_model(ctx, model, config), given, reply, report)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A prompt, behind a file at standard input where ``after_input``, and the form of its reply.

    ``suffix``: the text behind the reply, where a gap is to be filled. ``kept``: the prompt, which was read
    already, and made short where it is long. ``about``: the prompt where its text has a weight.
    """

    prompt: str | None
    after_input: bool
    form: GrammarSpec | None
    suffix: str | None = None
    kept: KeptPrompt | None = None
    about: AboutText | None = None

    def text(self, chat: Chat) -> str | AboutText:
        """Return the prompt. Raises the errors of ``read_prompt``."""
        if self.about:
            return self.about
        if self.kept:
            return self.kept.text
        return text_input.read_prompt(self.prompt, chat.prompts, after_input=self.after_input)

    def gap(self, before: str | AboutText) -> RawText:
        """Return the text that the reply continues, or the gap that it fills."""
        return Infill(before, self.suffix) if self.suffix is not None and isinstance(before, str) else before


def _answer(model: Model, asked: _Asked, given: opt.ReplyOptions, options: ReportOptions) -> None:
    """Answer the prompt, and report the reply."""
    raw, system = without_template(model, raw=given.raw or asked.suffix is not None, system=given.system)
    if asked.kept and raw:
        raise UsageError(f"{model.name} has no chat template, and --prompt-keep needs a question")
    chat = model.chat(system=system, max_tokens=given.max_tokens, stop=given.stops, grammar=asked.form)
    logprobs = options.logprobs
    say_law(asked.form, chat.settings.params)
    model.make_room_for(chat.settings.drawn, logprobs=bool(logprobs), grammar=asked.form is not None)
    text = asked.text(chat)
    shorter = asked.kept.tokens(model) if asked.kept else {}
    if asked.about:
        from edgedec.cli.context_weight import say_weight

        say_weight(model)
    begun_s = age_s()
    reply = (
        chat.complete(asked.gap(text), logprobs=logprobs)
        if raw
        else chat.reply(text, logprobs=logprobs, final=True)
    )
    palette = tracing.Palette() if options.trace and tracing.coloured() else None
    rendered = not (raw or options.trace or asked.form)
    with interrupts_to(chat.interrupt):
        if options.as_json:
            reply.read()
        elif rendered and view.can_draw():
            _draw(chat, reply)
        else:
            screen.stream(reply, lambda piece: tracing.show(piece, reply, palette), ends_line=True)
    if options.as_json:
        report = _report(model, chat, reply, begun_s + reply.stats.prefill_s, shorter)
        screen.show_json(report | _details(reply, options))
    else:
        _tell_of_cut(model, chat, reply)
        if options.trace:
            tracing.conclude(reply.trace(), palette)
    say_overrun(model)
    if chat.policy and (news := chat.policy.news()):
        notice(news)
    if reply.finish_reason == "interrupted":
        raise KeyboardInterrupt


def _tell_of_cut(model: Model, chat: Chat, reply: Reply) -> None:
    context = chat.policy.limit if chat.policy else model.context
    limits = Limits(context, model.loaded.spec.context_length, slides=chat.policy is None)
    if cut := limits.of_one(reply):
        notice(cut)


def _draw(chat: Chat, reply: Reply) -> None:
    """Show the reply on a terminal as a chat does: its markdown as it streams, its thinking in one line."""
    begun = view.begins_thinking(chat.tokenizer, reply.prompt)
    with unseen(), view.ReplyView(view.Look(), begun=begun) as shown:
        for piece in reply:
            shown.push(piece, len(reply.tokens))


def _details(reply: Reply, options: ReportOptions) -> dict[str, object]:
    """Return the fields of the report that only some options ask for."""
    found: dict[str, object] = {}
    if options.trace:
        found["trace"] = [one.as_json() for one in reply.trace()]
    if options.logprobs is not None:
        found["logprobs"] = [one.as_json() for one in reply.logprobs]
    return found


def _report(
    model: Model, chat: Chat, reply: Reply, first_token_s: float, shorter: Mapping[str, int]
) -> dict[str, object]:
    found, evicted = model.stats(reply), chat.policy.tokens if chat.policy else 0
    weight: Mapping[str, object] = {}
    if model.config.context_weight is not None:
        from edgedec.cli.context_weight import weight_fields

        weight = weight_fields(model, reply)
    weighed = ["context-weight"] if weight else []
    ways = ["switch"] if found.switch else [chat.policy.lossy] if chat.policy and evicted else []
    stats: dict[str, object] = {
        **reply.stats.as_json(),
        "sampling": asdict(reply.params),
        **found.as_json(),
        "time_to_first_token_s": round(first_token_s, 3),
        "lossy": "+".join([*ways, *(["prompt-keep"] if shorter else []), *weighed]) or None,
        "evicted_tokens": evicted,
        **shorter,
        **weight,
    }
    return {
        "model": model.name,
        "text": reply.text,
        "tokens": reply.tokens,
        "finish_reason": reply.finish_reason,
        "stats": stats,
    }
