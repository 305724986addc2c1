"""From a request to the prompt and the settings of its replies: a function of the request alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from edgedec.core.errors import ContextFullError, UsageError
from edgedec.core.ledger import SLACK
from edgedec.decode.checks import check_request
from edgedec.session.prompt import Prompts, conversation_of
from edgedec.session.reply import Settings, Start
from edgedec.session.reply_syntax import ReplySyntax
from edgedec.session.samples import with_seed
from edgedec.text.limits import TextLimits
from edgedec.text.reply_reader import reader_of

if TYPE_CHECKING:
    from edgedec.grammar.spec import GrammarSpec
    from edgedec.loaded_model import LoadedModel
    from edgedec.sampling import DrawParams
    from edgedec.server.work.request import GenerationRequest, QueueLimits
    from edgedec.session.engine import ReplyEngine
    from edgedec.text.reply_reader import ReplyReader


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
        self, model: LoadedModel, engine: ReplyEngine, params: DrawParams, limits: QueueLimits
    ) -> None:
        self._model = model
        self._engine = engine
        self._params = params
        self._limits = limits
        self._text_limits = TextLimits(engine.capacity, partial(engine.home.ledger.lease, SLACK))
        self._codec = model.codec.clone()
        self._tokenizer, self._template = self._codec.tokenizer, self._codec.template

    def inputs(self, request: GenerationRequest) -> ReplyInputs:
        """Return the inputs of a request's replies.

        Raises ContextFullError for a prompt that does not fit, TemplateError, UsageError.
        """
        syntax = ReplySyntax(self._codec, request.tools, request.tool_choice, request.template_options)
        start, own = self._start(request, syntax)
        if own and request.grammar:
            raise UsageError("a reply is a tool call or has another form", hint="leave one of them out")
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
            grammar=request.grammar or own,
        )
        inputs = ReplyInputs(start, settings)
        self._check(inputs)
        return inputs

    def _start(self, request: GenerationRequest, syntax: ReplySyntax) -> tuple[Start, GrammarSpec | None]:
        """Return the place where replies begin, and the form that the tools demand."""
        room = self._limits.reply_tokens
        prompts = Prompts(self._tokenizer, self._template, self._text_limits, syntax.inputs)
        if request.text is not None:
            return Start(prompts.of_text(request.text), room=room), None
        if self._template is None:
            raise UsageError(
                f"{self._model.name} is a base model: it continues texts, and has no chat template",
                hint="ask for the completion of a text, or name another model",
            )
        usual = self._model.manifest.preset.system
        messages = conversation_of(request.messages, None, usual)
        if not request.continues:
            prompt = prompts.build(messages)
            start = Start(prompt.ids, room=room, reader=partial(syntax.reader, prompt.text, messages))
            return start, syntax.grammar(prompt.text)
        if messages[-1].uses_tools:
            raise UsageError("a reply with tool calls cannot be continued", hint="give their results")
        shown = messages[-1].content
        prompts.check(shown)
        if not messages[:-1]:
            raise UsageError("there is nothing before the reply to continue", hint="give the user's message")
        prompt = prompts.build(messages[:-1])
        tokens = tuple(self._tokenizer.encode_inside(shown))
        reader = partial(syntax.reader, prompt.text, messages)
        return Start(prompt.ids, tokens, shown, room, reader=reader), None

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
