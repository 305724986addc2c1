"""``edgedec batch --samples``: several replies to one prompt, and perhaps a choice among them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import click

from edgedec.cli import options as opt
from edgedec.cli import screen, text_input
from edgedec.cli.choice import BEST, FIRST, VOTE, Choice
from edgedec.cli.cut import Limits
from edgedec.cli.form import say_law
from edgedec.cli.interrupts import interrupts_to
from edgedec.cli.opening import open_model, say_overrun, without_template
from edgedec.cli.progress import notice
from edgedec.core.errors import EdgeDecError
from edgedec.core.quick_dataclass import dataclass

if TYPE_CHECKING:
    from edgedec.assemble.config import RunConfig
    from edgedec.grammar.spec import GrammarSpec
    from edgedec.session.conversations import Conversations
    from edgedec.session.reply import Reply
    from edgedec.session.tasks import Answer

_SHOWN = 60
"""Characters of an answer in a note."""


@dataclass(frozen=True, slots=True)
class PromptJob:
    """A prompt, the model that answers it, and how many times."""

    prompt: str | None
    model: str
    config: RunConfig
    samples: int
    choice: Choice | None = None
    form: GrammarSpec | None = None
    """The form that replies must have."""


def run(ctx: click.Context, job: PromptJob, options: opt.BatchReplyOptions, *, as_json: bool) -> None:
    """Make the samples, and show all of them or the chosen one."""
    from edgedec.session.tasks import RunningVote

    text_input.check_prompt(job.prompt)
    opened = open_model(ctx, job.model, job.config)
    raw, system = without_template(opened, raw=options.raw, system=options.system)
    several = opened.conversations(
        system=system, max_tokens=options.max_tokens, stop=options.stops, grammar=job.form
    )
    say_law(job.form, several.chats[0].settings.params)
    text = text_input.read_prompt(job.prompt, several.chats[0].prompts, after_input=False)
    choice, count = job.choice, job.samples
    best, first = (choice is not None and choice.kind == kind for kind in (BEST, FIRST))
    vote = RunningVote(count, choice.pattern) if choice and choice.kind == VOTE else None
    with several, interrupts_to(several.interrupt):
        if as_json:
            several.measure()
        answers = several.samples(text, count, raw=raw, logprobs=1 if best else None, as_done=True)
        heard = vote.heard(answers, several.interrupt) if vote else answers
        made = _first_to_end(several, heard) if first else _every(heard)
        batch = several.together().as_json() if as_json else {}
    ended = len(made.whole)
    interrupted = made.first is None and (not vote.known if vote else first or ended < count)
    picked: _Picked | None = None
    unanswered: BaseException | None = KeyboardInterrupt() if interrupted else None
    try:
        picked = None if interrupted else _picked(made, choice)
    except EdgeDecError as error:  # all are shown, and then it
        unanswered = error
    if as_json:
        stats = {"batch": batch, "samples_ended": ended, "samples_not_needed": count - ended if picked else 0}
        screen.show_json(_document(opened.name, made, picked) | {"stats": stats})
    else:
        _show(made, picked, count)
        limits = Limits(several.context, opened.loaded.spec.context_length, slides=False)
        for line in limits.of_several(_cut(made, picked), "sample"):
            notice(line)
    say_overrun(opened)
    if unanswered:
        raise unanswered
    for number, formless in made.errors.items():
        if picked is None or number == picked.number:
            raise formless


@dataclass(frozen=True, slots=True)
class _Made:
    """Replies by the number of their sample; ``first``: the first one to end.

    ``errors`` are those of replies that do not have the form that they must have.
    """

    replies: dict[int, Reply]
    errors: dict[int, Exception]
    first: int | None = None

    @property
    def whole(self) -> dict[int, Reply]:
        """The replies that were not interrupted."""
        return {at: one for at, one in self.replies.items() if one.finish_reason != "interrupted"}


@dataclass(frozen=True, slots=True)
class _Picked:
    """The number of the chosen sample, with the answers of a vote by number."""

    number: int
    answers: Mapping[int, str | None] | None = None


def _every(answers: Iterable[Answer]) -> _Made:
    every = sorted(answers, key=lambda one: one.number)
    replies = {one.number: _reply(one) for one in every}
    return _Made(replies, {one.number: one.error for one in every if one.error is not None})


def _first_to_end(several: Conversations, answers: Iterable[Answer]) -> _Made:
    """Interrupt the others once a reply has come to its own end; where none does, the first that is cut."""
    every: list[Answer] = []
    first = None
    for answer in answers:
        every.append(answer)
        if first is None and _reply(answer).finish_reason == "stop":
            first = answer.number
            several.interrupt()
    made = _every(every)
    if first is None and every and len(made.whole) == len(every):
        first = every[0].number
    return replace(made, first=first)


def _reply(answer: Answer) -> Reply:
    if answer.reply is None:
        assert answer.error is not None
        raise answer.error
    return answer.reply


def _picked(made: _Made, choice: Choice | None) -> _Picked | None:
    from edgedec.session.samples import best_of, vote_of

    if choice is None:
        return None
    if made.first is not None:
        return _Picked(made.first)
    right = [number for number in made.whole if number not in made.errors]
    numbers = right or list(made.whole)
    replies = [made.replies[number] for number in numbers]
    if choice.kind == BEST:
        return _Picked(numbers[best_of(replies)])
    vote = vote_of([reply.text for reply in replies], choice.pattern)
    return _Picked(numbers[vote.chosen], dict(zip(numbers, vote.answers, strict=True)))


def _cut(made: _Made, picked: _Picked | None) -> dict[str, list[int]]:
    """Return the numbers, from 1, of those samples that are shown and that a limit cut."""
    shown = made.replies if picked is None else {picked.number: made.replies[picked.number]}
    found: dict[str, list[int]] = {}
    for number, reply in shown.items():
        found.setdefault(reply.finish_reason or "", []).append(number + 1)
    return found


def _show(made: _Made, picked: _Picked | None, count: int) -> None:
    if picked is not None:
        screen.show(made.replies[picked.number].text)
        click.echo()
        notice(f"note: {_reason(made, picked, count)}")
        return
    for number, reply in made.replies.items():
        click.echo(f"{chr(10) if number else ''}--- sample {number + 1}, seed {reply.params.seed}:")
        screen.show(reply.text)
        click.echo()


def _reason(made: _Made, picked: _Picked, count: int) -> str:
    shown = f"sample {picked.number + 1} of {count}, seed {made.replies[picked.number].params.seed}"
    if picked.answers is None:
        return shown
    answer = picked.answers[picked.number]
    votes = list(picked.answers.values()).count(answer)
    rest = f"; {left} more could not change that" if (left := count - len(made.whole)) else ""
    return f"{shown}; {votes} answered {screen.printable(str(answer))[:_SHOWN]}{rest}"


def _document(model: str, made: _Made, picked: _Picked | None) -> dict[str, object]:
    from edgedec.session.samples import mean_logprob

    samples = []
    for number, reply in made.replies.items():
        one: dict[str, object] = {
            "seed": reply.params.seed,
            "text": reply.text,
            "tokens": reply.tokens,
            "finish_reason": reply.finish_reason,
            "stats": {**reply.stats.as_json(), "sampling": asdict(reply.params)},
        }
        if (mean := mean_logprob(reply)) is not None:
            one["mean_logprob"] = round(mean, 6)
        if picked and picked.answers:
            one["answer"] = picked.answers.get(number)
        if number in made.errors:
            one["error"] = str(made.errors[number])
        samples.append(one)
    found: dict[str, object] = {"model": model, "samples": samples}
    return found if picked is None else found | {"chosen": list(made.replies).index(picked.number)}
