"""From a request to the prompt and the settings of its replies: a function of the request alone."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from edgedec.core.errors import ContextFullError, UsageError
from edgedec.core.ledger import SLACK
from edgedec.core.progress import Notice, ignore
from edgedec.core.quick_dataclass import dataclass
from edgedec.core.units import size
from edgedec.decode.checks import check_request
from edgedec.session.prompt import Prompts, in_one_system, with_system
from edgedec.session.reply import Settings, Start
from edgedec.session.reply_syntax import ReplySyntax
from edgedec.session.samples import with_seed
from edgedec.text.limits import TextLimits
from edgedec.text.reply_reader import reader_of
from edgedec.text.thinking import effort_limit, effort_option

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from edgedec.grammar.spec import GrammarSpec
    from edgedec.loaded_model import LoadedModel
    from edgedec.sampling import DrawParams
    from edgedec.server.work.request import GenerationRequest, QueueLimits
    from edgedec.session.engine import ReplyEngine
    from edgedec.session.message import Message
    from edgedec.text.reply_reader import ReplyReader
    from edgedec.text.template_inputs import Plain
    from edgedec.text.thought import ThoughtRule


_MOST_NOTES = 100


@dataclass(frozen=True, slots=True)
class ReplyInputs:
    """The place where the replies to a request begin, and how the first of them is drawn."""

    start: Start
    settings: Settings

    @property
    def prompt(self) -> list[int]:
        """The token ids before the reply."""
        return [*self.start.prompt, *self.start.tokens]

    def reader(self) -> ReplyReader:
        """Return a reader of the text of one reply, without the part that is continued."""
        reader = self.start.reader() if self.start.reader else reader_of(None)
        reader.push(self.start.shown)
        return reader

    def settings_of(self, sample: int) -> Settings:
        """Return the settings of a sample: those of the first, with another seed."""
        return replace(self.settings, params=with_seed(self.settings.params, sample))


class Intake:
    """Reads requests to ``model``; ``params``: how its replies are drawn unless a request says otherwise.

    Use it in one thread.
    """

    def __init__(
        self,
        model: LoadedModel,
        engine: ReplyEngine,
        params: DrawParams,
        limits: QueueLimits,
        notice: Notice = ignore,
    ) -> None:
        self._model = model
        self._engine = engine
        self._params = params
        self._limits = limits
        self._notice = notice
        self._noted: set[str] = set()
        self._text_limits = TextLimits(engine.capacity, partial(engine.home.ledger.lease, SLACK))
        self._codec = model.codec.clone()
        self._tokenizer, self._template = self._codec.tokenizer, self._codec.template

    def tokens(self, text: str, *, add_bos: bool, parse_special: bool) -> list[int]:
        """Return the tokens of a text. Raises ContextFullError for one that no context holds."""
        limits = self._text_limits
        return self._tokenizer.encode(text, add_bos=add_bos, parse_special=parse_special, limits=limits)

    def text_of(self, ids: Sequence[int]) -> str:
        """Return the text of tokens, control tokens spelt. Raises UsageError for an id without a token."""
        if wrong := [id for id in ids if not 0 <= id < self._model.spec.vocab_size]:
            most = self._model.spec.vocab_size - 1
            raise UsageError(f"there is no token {wrong[0]}", hint=f"give ids from 0 to {most}")
        return self._tokenizer.decode(ids, frozenset(self._tokenizer.control_ids().values()))

    def piece(self, id: int) -> bytes:
        """Return the bytes of a token, a control token spelt."""
        return self._tokenizer.token_bytes(id) or self._tokenizer.token_text(id).encode()

    def rendered(self, request: GenerationRequest) -> str:
        """Return the prompt that a chat makes, as text. Raises as ``inputs``."""
        prompts = self._prompts(self._syntax(request))
        return prompts.build(self._conversation(request, prompts)).text

    def inputs(self, request: GenerationRequest) -> ReplyInputs:
        """Return the inputs of a request's replies.

        Raises ContextFullError for a prompt that does not fit, TemplateError, UsageError.
        """
        syntax = self._syntax(request)
        start, form = self._start(request, syntax)
        stops = (*self._model.manifest.preset.stops, *request.stop)
        logprobs = None if request.logprobs is None else max(request.logprobs, 1)
        spelled = syntax.spelled if start.reader else frozenset()
        params = request.sampling.over(self._params)
        settings = Settings(
            params,
            request.max_tokens,
            stops,
            logprobs=logprobs,
            spelled=spelled,
            channels=bool(start.reader) and syntax.channels,
            grammar=form,
            thought=self._thought(request),
        )
        inputs = ReplyInputs(start, replace(settings, params=settings.drawn))
        self._check(inputs)
        self._note(settings.grammar)
        return inputs

    def _note(self, form: GrammarSpec | None) -> None:
        """Say once which keywords of a schema replies do not keep to."""
        for one in form.left_out if form else ():
            if one not in self._noted and len(self._noted) < _MOST_NOTES:
                self._noted.add(one)
                self._notice(f"replies do not keep to {one}")

    def _syntax(self, request: GenerationRequest) -> ReplySyntax:
        options = {**self._effort(request), **request.template_options}
        return ReplySyntax(self._codec, request.tools, request.tool_choice, options)

    def _prompts(self, syntax: ReplySyntax) -> Prompts:
        return Prompts(self._tokenizer, self._template, self._text_limits, syntax.inputs)

    def _conversation(self, request: GenerationRequest, prompts: Prompts) -> list[Message]:
        """Return the messages of a chat with the system message that the model usually has."""
        if self._template is None:
            raise UsageError(
                f"{self._model.name} is a base model: it continues texts, and has no chat template",
                hint="ask for the completion of a text, or name another model",
            )
        usual = self._model.manifest.preset.system
        messages = with_system(self._ordered(request.messages), usual)
        prompts.check_messages(messages)
        self._check_room(prompts.text_bytes(messages))
        return messages

    def _start(self, request: GenerationRequest, syntax: ReplySyntax) -> tuple[Start, GrammarSpec | None]:
        """Return the place where replies begin, and the form that they must have."""
        room = self._limits.reply_tokens
        prompts = self._prompts(syntax)
        if (text := request.infill or request.text) is not None:
            raw = prompts.raw(text, parse_special=request.parse_special, heal=request.grammar is None)
            return Start(raw.ids, room=room, ends=raw.ends, held=raw.held), request.grammar
        messages = self._conversation(request, prompts)
        if not request.continues:
            prompt = prompts.build(messages)
            form = syntax.grammar(prompt.text, request.grammar)
            prompt = syntax.opened(prompt, form)
            reader = partial(syntax.reader, prompt.text, messages, form)
            return Start(prompt.ids, room=room, reader=reader), form
        if messages[-1].uses_tools:
            raise UsageError("a reply with tool calls cannot be continued", hint="give their results")
        shown = messages[-1].content
        prompts.check(shown)
        if not messages[:-1]:
            raise UsageError("there is nothing before the reply to continue", hint="give the user's message")
        prompt = prompts.build(messages[:-1])
        tokens = tuple(self._tokenizer.encode_inside(shown))
        reader = partial(syntax.reader, prompt.text, messages, request.grammar)
        return Start(prompt.ids, tokens, shown, room, reader=reader), request.grammar

    def _ordered(self, messages: Sequence[Message]) -> list[Message]:
        """Return messages with the system messages where the chat template writes them."""
        several = any(one.role == "system" for one in messages[1:])
        later = several and self._template is not None and self._template.keeps_system()
        return in_one_system(messages, later=later)

    def _effort(self, request: GenerationRequest) -> Mapping[str, Plain]:
        if request.reasoning_effort is None or self._template is None:
            return {}
        return effort_option(self._template.source, request.reasoning_effort)

    def _thought(self, request: GenerationRequest) -> ThoughtRule | None:
        """Return the thinking part of the replies, and when it is closed; None where there is none."""
        if self._template is None:
            return None
        rule, limit = self._template.thought(), request.think_tokens
        if limit is None and rule:
            limit = effort_limit(self._template.source, request.reasoning_effort)
        return rule if limit is None else self._template.thought(limit)

    def _check_room(self, nbytes: int) -> None:
        """Raise ContextFullError for texts that take more memory than there can ever be for them."""
        shares = self._engine.home.ledger.shares
        most = None if shares is None else shares.get(SLACK, 0)
        if most is not None and nbytes > most:
            raise ContextFullError(
                f"the texts of the prompt take {size(nbytes)} of memory, and there is {size(most)} for them",
                hint=f"shorten them to {100 * most // nbytes} %, or start the server with more memory",
            )

    def _check(self, inputs: ReplyInputs) -> None:
        settings, count = inputs.settings, len(inputs.prompt)
        most = self._limits.prompt_tokens
        if most is not None and count > most:
            raise ContextFullError(
                f"the prompt has {count} tokens, and this server reads {most}", hint="shorten it"
            )
        check_request(
            inputs.prompt,
            self._model.spec,
            max_tokens=settings.max_tokens or 1,
            capacity=self._engine.capacity,
            logprobs=settings.logprobs or 0,
        )
