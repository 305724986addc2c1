"""A conversation: turns in, streamed replies out, one KV cache kept across all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from edgedec.core.cache_config import STOP
from edgedec.core.errors import TemplateError, UsageError
from edgedec.core.ledger import SLACK
from edgedec.grammar import GrammarSpec, constraint_for
from edgedec.sampling.named import Sampling, chosen
from edgedec.session import fit
from edgedec.session.host import Host, Totals, weigh
from edgedec.session.message import AboutText, Message, ToolCall, message_of
from edgedec.session.prompt import Prompt, Prompts, RawText, Unfinished
from edgedec.session.public_names import public_names
from edgedec.session.reply import Reply, Settings, Start
from edgedec.session.reply_arguments import ReplyArguments, read_arguments
from edgedec.session.reply_syntax import REQUIRED, ReplySyntax
from edgedec.text.infill import Infill
from edgedec.text.limits import TextLimits

if TYPE_CHECKING:
    from edgedec.bundle.model_id import ModelId
    from edgedec.decode.speculation import Speculation
    from edgedec.eviction.policy import Policy
    from edgedec.session.engine import ReplyEngine
    from edgedec.session.saved_session import SavedSession
    from edgedec.text.codec import Codec
    from edgedec.text.reply_reader import ReplyReader
    from edgedec.text.tokenizer import Tokenizer

_PROMPT_END_CHARS = 100
"""Characters at the end of a prompt that tell whether the reply begins in its thinking part."""


class Chat:
    """Messages, the prompt they render to, and the engine that answers.

    A turn that fails (context full, broken template) or that is stopped before its first character leaves
    the conversation as it was. A reply stopped half-way is kept as far as it was shown.
    ``settings.when_full`` says what happens when the context is full: the oldest turns are dropped, which a
    line to ``notice`` says, or the turn fails, or an eviction policy of the engine makes room.

    ``messages`` holds what the model still sees, not all that was said. So neither the chat nor its file
    grows without bound.
    """

    def __init__(
        self,
        engine: ReplyEngine,
        codec: Codec,
        settings: Settings | None = None,
        *,
        messages: Sequence[Message] = (),
        syntax: ReplySyntax | None = None,
        host: Host | None = None,
    ) -> None:
        self.engine = engine
        self.codec = codec
        self.syntax = syntax or ReplySyntax(codec)
        """The tools, and the options of the chat template."""
        limits = TextLimits(engine.capacity, partial(engine.home.ledger.lease, SLACK))
        self.prompts = Prompts(codec.tokenizer, codec.template, limits, self.syntax.inputs)
        self.settings = settings or Settings()
        self.messages: list[Message] = list(messages)
        self.totals = Totals()
        self.last: Reply | None = None
        """The latest reply, running or finished."""
        self.unfinished: Unfinished | None = None
        """The reply that ``more`` would continue; None when the last one came to its own end."""
        self._own: dict[str, Any] = {}
        """The settings of the latest reply that are not those of the chat."""
        self._about: AboutText | None = None
        self._host = host or Host()

    @property
    def tokenizer(self) -> Tokenizer:
        return self.codec.tokenizer

    @property
    def policy(self) -> Policy | None:
        """The engine's eviction policy."""
        return self.engine.policy

    @property
    def speculation(self) -> Speculation | None:
        """The engine's drafters; None where nothing drafts."""
        return self.engine.home.speculation

    @property
    def system(self) -> str | None:
        """The system message."""
        first = self.messages[0] if self.messages else None
        return first.content if first and first.role == "system" else None

    def set_system(self, text: str | None) -> None:
        """Set the system message, None or empty text for none. The turns stay; they are read again."""
        turns = self.messages[1:] if self.system is not None else self.messages
        self.messages = [*([Message("system", text)] if text else []), *turns]
        self.prompts.forget()
        self.unfinished = None
        self._own = {}

    def think(self, on: bool) -> None:
        """Let later replies think first, or not. Raises UsageError for a template without a switch."""
        if self.codec.template is None:
            raise UsageError("the model has no chat template, so it has no thinking to turn on or off")
        self.codec = replace(self.codec, template=self.codec.template.thinking(on))
        self.syntax = replace(self.syntax, codec=self.codec)
        self.prompts.use(self.codec.template)

    def reset(self) -> None:
        """Forget every turn; the system message stays."""
        self.messages = self.messages[: self.system is not None]
        self.set_system(self.system)

    def reply(
        self,
        text: str | AboutText | None = None,
        *,
        max_tokens: int | None = None,
        sampling: Sampling | None = None,
        stop: Sequence[str] = (),
        logprobs: int | None = None,
        final: bool = False,
        **named: Unpack[ReplyArguments],
    ) -> Reply:
        """Answer one user turn; iterate over the reply to get its text. ``interrupt()`` ends it early.

        None for ``text`` answers the last message, if that is the user's or a tool's; an ``AboutText`` has
        its text before it (``RunConfig.context_weight``). ``max_tokens``, ``sampling``, single values of it
        such as ``temperature=0.5``, and ``stop`` hold for this reply and its continuation: as in
        ``Model.chat``, on top of the chat's own. ``logprobs``: as in ``Model.complete``.
        ``schema``, ``regex`` or ``grammar`` name the form of this reply, as in ``Model.chat``. It has that
        form, or its iteration ends with a GrammarError; one that was cut goes on with ``more``.

        Without a bound in tokens the reply ends where 75 % of the context are filled, but has an eighth of
        the context in any case: the rest is for the next turn. With ``final`` it may have all of it.

        Raises ContextFullError when the turn does not fit, with "stop" also when the conversation with it
        does not; TemplateError when they do not render; UsageError when the model was closed.

        >>> chat.reply("What is 2+2?").read()
        'The answer to this classic math problem is 4.'
        >>> chat.last.finish_reason
        'stop'
        """
        self._leave()
        params, form = read_arguments(sampling, **named)
        own = self._named(max_tokens, params, stop)
        if form_of_reply := form or self.settings.grammar or self.syntax.grammar(""):
            own["grammar"] = form_of_reply
        self._prepare(replace(self.settings, **own), bool(logprobs))
        before, about = self.messages, text if isinstance(text, AboutText) else None
        if (asked := text.whole if isinstance(text, AboutText) else text) is not None:
            self.prompts.check(asked)
        elif not before or before[-1].role not in ("user", "tool"):
            raise UsageError("there is no message to answer", hint="give the text of one")
        self._own, self._about = own, about
        fitted = self._fitted(before if asked is None else [*before, Message("user", asked)])
        prompt = fitted.prompt

        def ended(reply: Reply) -> None:
            self.totals.add(reply.stats)
            if reply.text or reply.finish_reason == "stop":
                self._answered(fitted.messages, prompt, reply)
            else:
                self.messages = before

        room = self._room(len(prompt.ids), final)
        turns, reader = self.prompts.turns(fitted.messages), self._reader(prompt, fitted.messages)
        without = self._without(fitted.messages)
        start = Start(prompt.ids, room=room, turns=turns, reader=reader, without=without)
        self.last = self._begun(start, logprobs, ended)
        self._say(fitted)
        return self.last

    def more(self, *, logprobs: int | None = None, final: bool = False) -> Reply:
        """Continue the last reply, which a limit cut or which was interrupted, as if it had not been cut.

        Its tokens are those that a longer reply would have had. Where the context is full, the oldest turns
        are dropped first, unless ``settings.when_full`` is "stop". ``text`` and ``tokens`` of the result are
        the new ones. The bounds are those of ``reply``.

        Raises UsageError when there is no reply to continue, and ContextFullError when the reply with its own
        turn fills the context.

        >>> short = model.chat(max_tokens=3)
        >>> short.reply("What is 2+2?").read() + short.more().read()
        'The answer to this classic math'
        """
        self._leave()
        if (cut := self.unfinished) is None:
            raise UsageError(
                "there is no reply to continue", hint="the last one ended by itself, or there is none"
            )
        self._own["grammar"] = cut.form
        self._prepare(self._settings, bool(logprobs))
        messages, prompt, tokens = self.messages[:-1], cut.prompt, cut.tokens
        fitted = None
        if self.policy:
            self.policy.keep(self.prompts.preamble(messages, prompt))
        if len(prompt.ids) + len(tokens) >= self.engine.capacity:
            fitted = self._fitted(messages, tokens)
            if not fitted.dropped:
                raise fit.fills_the_context(self.engine.capacity)
            messages, prompt = fitted.messages, fitted.prompt

        def ended(reply: Reply) -> None:
            self.totals.add(reply.stats)
            if reply.tokens:
                self.prompts.take_back()
                self._answered(messages, prompt, reply)

        room = self._room(len(prompt.ids) + len(tokens), final)
        turns, reader = self.prompts.turns(messages), self._reader(prompt, messages)
        start = Start(prompt.ids, tokens, cut.shown, room, turns, reader, cut.bound)
        start = replace(start, without=self._without(messages))
        self.last = self._begun(start, logprobs, ended)
        if fitted:
            self._say(fitted)
        return self.last

    def required_call(self, name: str | None = None) -> GrammarSpec:
        """Return the form of a reply that is a call of the tool ``name``, or of any one for None.

        The arguments keep the schema of the tool. Raises UsageError for a tool that is none, UnsupportedError
        for a model whose calls are not JSON.

        >>> from typing import Literal
        >>> def paint(colour: Literal["red", "green"]) -> None:
        ...     "Paint the house."
        >>> talk = qwen.chat(tools=[paint])
        >>> text = talk.reply("My house is too dull.", grammar=talk.required_call("paint")).read()
        >>> talk.last.tool_calls[0].values()
        {'colour': 'green'}
        """
        syntax = replace(self.syntax, choice=name or REQUIRED)
        prompt = self.prompts.build([*self.messages, Message("user", "?")])
        found = syntax.grammar(prompt.text)
        assert found is not None, "a call that must be has a grammar"
        return found

    def tool_result(self, call: ToolCall, text: str) -> None:
        """Add the result of a call that the last reply asked for; ``reply()`` answers the results.

        Raises UsageError for a call that does not wait for one.

        >>> def weather(town: str) -> str:
        ...     "Tell the weather of a town."
        ...     return f"Rain and 12 degrees in {town}."
        >>> system = "Use the tools to find facts. Then answer in plain words."
        >>> talk = qwen.chat(tools=[weather], system=system)
        >>> asked = talk.reply("What is the weather in Rome?").read()
        >>> [call] = talk.last.tool_calls
        >>> call.name, call.values()
        ('weather', {'town': 'Rome'})
        >>> talk.tool_result(call, weather(**call.values()))
        >>> talk.reply().read()
        'The weather in Rome is rainy and 12 degrees.'
        """
        results = len(self.messages)
        while results and self.messages[results - 1].role == "tool":
            results -= 1
        asked = self.messages[results - 1].tool_calls if results else ()
        answered = {message.tool_call_id for message in self.messages[results:]}
        if call.id in answered or all(one.id != call.id for one in asked):
            raise UsageError(f"no call {call.id!r:.40} waits for its result", hint="the last reply has them")
        self.messages = [*self.messages, Message("tool", text, name=call.name, tool_call_id=call.id)]

    def take_back(self) -> str:
        """Remove the last turn, the user's text with its reply, and return the text.

        Raises UsageError when there is no turn.

        >>> talk = model.chat(max_tokens=5)
        >>> text = talk.reply("Hello!").read()
        >>> talk.take_back(), talk.messages
        ('Hello!', [])
        """
        turns = [at for at, message in enumerate(self.messages) if message.role == "user"]
        if not turns:
            raise UsageError("there is no turn to take back", hint="say something first")
        turn = self.messages[turns[-1] :]
        text = turn[0].content
        self.messages = self.messages[: turns[-1]]
        for _ in range(max(1, sum(message.role == "assistant" for message in turn))):
            self.prompts.take_back()
        self.unfinished = None
        return text

    def complete(self, text: RawText, *, logprobs: int | None = None, parse_special: bool = True) -> Reply:
        """Continue ``text``, or fill its gap: no template, and no turn of the conversation.

        Control tokens in a text are tokens, unless ``parse_special`` is False. A gap inside a token is healed
        (``session.healed``) where the reply has no form and one model writes it.
        """
        self._leave()
        heal = isinstance(text, Infill) and not (self.settings.masked or self.engine.switched)
        self._prepare(self.settings, bool(logprobs), heal)
        self._own, about = {}, text.question if isinstance(text, AboutText) else None
        raw = self.prompts.raw(text, parse_special=parse_special, heal=heal)
        without = self.prompts.of_text(about, parse_special=parse_special) if about else ()
        self.last = self._begun(Start(raw.ids, ends=raw.ends, held=raw.held, without=without), logprobs)
        return self.last

    def interrupt(self) -> None:
        """End the reply in progress after its current token; does nothing when there is none."""
        if self.last is not None:
            self.last.interrupt()

    def recover(self) -> None:
        """Drop the KV cache after an exception in the middle of a pass; the next reply rebuilds it."""
        self.engine.reset()

    def cached(self) -> list[int]:
        """Return the conversation's tokens that the KV cache holds, without turns that were taken back."""
        if not any(message.role == "user" for message in self.messages):
            return []
        try:
            prompt = self.prompts.build(self.messages)
        except TemplateError:  # it may want a user's turn at the end
            prompt = self.prompts.seen
        return list(self.engine.committed[: self.engine.reusable(prompt.ids)])

    def save(self, path: str | Path) -> None:
        """Write the conversation and its KV cache to ``path``, replacing a file only when all is written.

        Raises StorageError; UsageError for a path that is there and no file.
        """
        from edgedec.session.saved_session import write_session

        write_session(Path(path), self.saved(), self.engine.home.portable)

    def saved(self) -> SavedSession:
        """Return the conversation as ``save`` writes it.

        Without the KV cache where tokens were evicted: then the conversation is read again.
        """
        from edgedec.session.saved_session import SavedSession, cache_of

        portable, gap = self.engine.home.portable, self.policy is not None and self.policy.gap
        return SavedSession(
            model=self._model_id,
            params=self.settings.params,
            messages=tuple(self.messages),
            text=self.prompts.seen.text,
            tokens=tuple(self.prompts.seen.ids),
            cache=cache_of(portable, self.cached()) if portable and not gap else None,
            unfinished=self.unfinished,
        )

    def restore(self, path: str | Path) -> None:
        """Put the saved conversation in place of this one, so that the next reply goes on at once.

        Replies are drawn as they were when it was saved. Raises NotFoundError, BadFileError, and UsageError
        when the conversation is with another model; nothing changes then.
        """
        from edgedec.session.saved_session import read_session

        saved = read_session(Path(path), self.engine, self._model_id, self._host.notice)
        self.messages = list(saved.messages)
        self.prompts.forget()
        self.prompts.remember(saved.text, saved.tokens)
        self.unfinished, self._own = saved.unfinished, {}
        self.adjust(params=saved.params)

    def __repr__(self) -> str:
        name = f" with {self.codec.model_id.name}" if self.codec.model_id else ""
        turns = sum(message.role == "user" for message in self.messages)
        tokens = f"{len(self.prompts.seen.ids)} of {self.engine.capacity} tokens"
        return f"<Chat{name}: {turns} turn{'' if turns == 1 else 's'}, {tokens}>"

    __dir__ = public_names(
        "interrupt", "last", "messages", "more", "reply", "required_call", "reset", "restore", "save",
        "set_system", "system", "take_back", "tool_result", "totals", "unfinished",
    )  # fmt: skip

    def __enter__(self) -> Chat:
        return self

    def __exit__(self, *_: object) -> None:
        self.interrupt()

    @property
    def _model_id(self) -> ModelId:
        assert self.codec.model_id is not None, "a model without a manifest cannot be saved"
        return self.codec.model_id

    def adjust(self, **changes: object) -> None:
        """Replace fields of ``settings`` for the replies to come."""
        self.settings = replace(self.settings, **changes)  # type: ignore[arg-type]

    def _leave(self) -> None:
        """End a reply that was left unread. Raises UsageError while a thread computes it."""
        if self.last and self.last.computing:
            raise UsageError("another reply is being computed", hint="read it to its end first")
        if self.last:
            self.last.leave()

    def _prepare(self, settings: Settings, logprobs: bool, heal: bool = False) -> None:
        """Make room for a reply, and raise what stands against it, before anything changes."""
        self._host.ready(settings.drawn, logprobs, settings.masked, heal)
        if settings.grammar:
            constraint_for(settings.grammar, self.tokenizer, (home := self.engine.home).spec, home.ledger)

    def _begun(
        self, start: Start, logprobs: int | None, ended: Callable[[Reply], None] = lambda reply: None
    ) -> Reply:
        weigh(self.engine.home.forward.contrasting, len(start.prompt), start.without)
        self._host.fetch(start.prompt)
        settings = replace(self._settings, logprobs=logprobs)
        if start.reader and (self.syntax.inputs.tools or self.syntax.channels):
            settings = replace(settings, spelled=self.syntax.spelled, channels=self.syntax.channels)
        ended, clock = self._host.before(ended), self._host.clock
        return Reply(self.engine, self.tokenizer, start, settings, ended=ended, clock=clock)

    def _reader(self, prompt: Prompt, messages: Sequence[Message]) -> Callable[[], ReplyReader]:
        end, form = prompt.text[-_PROMPT_END_CHARS:], self._settings.grammar
        return partial(self.syntax.reader, end, list(messages), form)

    @property
    def _settings(self) -> Settings:
        """The settings of the latest reply."""
        return replace(self.settings, **self._own)

    def _named(
        self, max_tokens: int | None, sampling: Sampling | None, stop: Sequence[str]
    ) -> dict[str, Any]:
        """Return the settings of a reply that a call names."""
        own: dict[str, Any] = {}
        if max_tokens is not None:
            own["max_tokens"] = max_tokens
        if sampling is not None:
            own["params"] = chosen(sampling, self.settings.params)
        if stop:
            own["stops"] = (*self.settings.stops, *stop)
        return own

    def _room(self, prompt: int, final: bool) -> int | None:
        """Return how many tokens the context has for a reply to ``prompt`` tokens; None: all left."""
        if final or self._settings.max_tokens is not None:
            return None
        return fit.reply_room(prompt, self.engine.capacity)

    def _fitted(self, messages: list[Message], tokens: Sequence[int] = ()) -> fit.Fitted:
        """Drop turns until the conversation fits, with ``tokens`` of its last reply behind it."""

        def build(messages: Sequence[Message]) -> Prompt:
            prompt = self._opened(messages)
            return Prompt(prompt.text, [*prompt.ids, *tokens]) if tokens else prompt

        if self.settings.when_full == STOP:
            return fit.Fitted(messages, build(messages))
        engine = self.engine
        longest = self._settings.max_tokens or engine.slots
        fitted = fit.fit(messages, build, engine.slots, longest, engine.capacity)
        if self.policy:
            self.policy.keep(self.prompts.preamble(fitted.messages, fitted.prompt))
        prompt = fitted.prompt
        return replace(fitted, prompt=Prompt(prompt.text, prompt.ids[: len(prompt.ids) - len(tokens)]))

    def _opened(self, messages: Sequence[Message]) -> Prompt:
        return self.syntax.opened(self.prompts.build(messages), self._settings.grammar)

    def _without(self, messages: Sequence[Message]) -> Sequence[int]:
        """Return the prompt without the text that the last message is about; none where nothing weighs it."""
        if self._about is None or self.engine.home.forward.contrasting is None:
            return ()
        return self._opened([*messages[:-1], Message("user", self._about.question)]).ids

    def _say(self, fitted: fit.Fitted) -> None:
        if fitted.dropped:
            self._host.notice(fit.notice(fitted.dropped, self.system is not None))

    def _answered(self, messages: list[Message], prompt: Prompt, reply: Reply) -> None:
        """Take a reply, or the next part of one, into the conversation ``messages``."""
        self.messages = [*messages, self._message(reply)]
        tokens = (*reply.start.tokens, *reply.text_tokens)
        cut = reply.finish_reason != "stop"
        shown = reply.start.shown + reply.text
        self.unfinished = Unfinished(prompt, tokens, shown, reply.bound, reply.form) if cut else None
        if reply.exact:
            self.prompts.remember(prompt.text + reply.whole, [*prompt.ids, *tokens])
        else:
            self.prompts.forget()

    def _message(self, reply: Reply) -> Message:
        """Return a reply as a message: content alone without tools and channels, or with a broken call."""
        if self.syntax.inputs.tools or self.syntax.channels:
            message = reply.message
            with suppress(UsageError):
                return message_of(message)
        return Message("assistant", reply.whole)
