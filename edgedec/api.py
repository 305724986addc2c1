"""The public API: open a model, chat with it, complete texts.

Commands and benchmarks use it too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Unpack
from weakref import WeakSet

from edgedec.assemble.budget import Budget
from edgedec.assemble.config import RunConfig
from edgedec.assemble.opener import Load
from edgedec.assemble.prepare import Bundles, Prepared, prepare
from edgedec.assemble.run_context import RunContext
from edgedec.assemble.runner import Runner
from edgedec.assemble.settings import RunSettings, config_of
from edgedec.bundle.manifest import WEIGHTS
from edgedec.bundle.preset import Preset
from edgedec.core.cache_config import DROP
from edgedec.core.errors import NotFoundError, UsageError
from edgedec.core.progress import Notice, Progress, ignore, silent
from edgedec.core.units import parse_size
from edgedec.drafters.registry import models_in, no_drafter
from edgedec.grammar import GrammarSpec, constraint_for
from edgedec.loaded_model import LoadedModel, load_model
from edgedec.memory.release import ready_beside, release_code
from edgedec.models import Store
from edgedec.models.pairs import installed_drafter
from edgedec.sampling import DrawParams
from edgedec.sampling.named import Sampling, chosen
from edgedec.session.chat import Chat
from edgedec.session.function_tools import tools_of
from edgedec.session.host import Host
from edgedec.session.opened_prefixes import opened_prefixes
from edgedec.session.prompt import Message, RawText, conversation_of
from edgedec.session.public_names import public_names
from edgedec.session.reply import Reply, Settings
from edgedec.session.reply_arguments import ReplyArguments, read_arguments
from edgedec.session.reply_syntax import ReplySyntax

if TYPE_CHECKING:
    from edgedec.control.switching import SwitchRule
    from edgedec.core.low_rank import AdapterSource
    from edgedec.embed.encoder import Encoder
    from edgedec.session.conversations import Conversations
    from edgedec.session.engine import ReplyEngine
    from edgedec.session.function_tools import Tool
    from edgedec.session.model_stats import ModelStats, PlanStats
    from edgedec.switch.side import TextSide


def open(
    model: str | Path | Bundles,
    config: RunConfig | None = None,
    *,
    store: Store | None = None,
    notice: Notice = ignore,
    progress: Progress = silent,
    load: Load | None = None,
    **settings: Unpack[RunSettings],
) -> Model:
    """Open a model: a name, a bundle, a GGUF file, a Hugging Face directory, or ``owner/repo`` of the hub.

    A model that is missing is pulled or exported into ``store`` first, which ``progress`` follows. ``notice``
    gets lines for the user. ``settings`` are fields of ``RunConfig`` and values of sampling, in place of
    ``config``: ``open(name, context=2048, memory="600MB", temperature=0.5)``. Files that changed since the
    last start are verified before they are used, which ``progress`` follows too. A draft model that cannot be
    used costs a notice, and the model runs without it. Raises the errors of ``fetch``, ``RunConfig``,
    ``prepare`` and ``Model``.

    >>> import edgedec
    >>> greedy = edgedec.SamplingParams.greedy()
    >>> with edgedec.open("smollm2-135m", sampling=greedy) as model, model.chat() as chat:
    ...     for piece in chat.reply("What is 2+2?"):
    ...         print(piece, end="")
    The answer to this classic math problem is 4.
    """
    config, store = config_of(config, settings), store or Store(notice=notice, in_subprocess=True)
    bundles = model if isinstance(model, Bundles) else fetch(model, config, store, progress)
    if not bundles.adapters:
        bundles = replace(bundles, adapters=adapters_for(config, bundles.target))
    load = load or partial(load_model, home=store.home, progress=progress)
    prepared = prepare(config, bundles, context_of(store, notice), load)
    if prepared.budget is None:
        spec = prepared.target.spec
        # Few rows of a table of embeddings are read, which lies first; and of experts few.
        ready_beside(None if spec.experts else bundles.target / WEIGHTS, spec.table_bytes)
    opened = Model(prepared)
    if prepared.budget is not None:
        release_code()  # after the memory plan, which counts it, and before a reply, which must keep to it
    return opened


def open_encoder(
    model: str | Path,
    *,
    threads: int | None = None,
    memory: int | str | None = None,
    store: Store | None = None,
    notice: Notice = ignore,
    progress: Progress = silent,
) -> Encoder:
    """Open a model that makes vectors of texts, or scores of pairs: a name, a bundle or another path.

    - ``threads``: compute threads; None: one per physical core.
    - ``memory``: the most that the process may have resident, in bytes or as "300MB"; None: no budget.

    A model that is missing is pulled or exported into ``store`` first. Raises the errors of ``Store.ensure``,
    UnsupportedError for a model that replies, MemoryBudgetError for a budget that is too small.

    >>> encoder = edgedec.open_encoder("all-minilm-l6-v2", memory="300MB")  # doctest: +SKIP
    >>> encoder.embed(["a text", "another"]).vectors.shape  # doctest: +SKIP
    (2, 384)
    """
    from edgedec.embed.encoder import load_encoder

    store = store or Store(notice=notice, in_subprocess=True)
    limit = parse_size(memory) if isinstance(memory, str) else memory
    bundle = store.ensure(str(model), progress=progress)
    return load_encoder(bundle, threads=threads, memory=limit, home=store.home, progress=progress)


def context_of(store: Store, notice: Notice = ignore) -> RunContext:
    """Return the context of a run whose models and artefacts are those of ``store``."""
    return RunContext(store.home, notice, known=partial(installed_drafter, store=store))


def fetch(model: str | Path, config: RunConfig, store: Store, progress: Progress = silent) -> Bundles:
    """Return the bundles of a model and its draft models; pull or export those that are missing.

    Raises the errors of ``Store.ensure``, and UsageError for a drafter that does not exist and for a model
    that is to take turns with itself.
    """
    drafts: dict[str, Path] = {}
    names = (*models_in(config.drafters), *([config.switch] if config.switch else ()))
    for name in dict.fromkeys(names):
        try:
            drafts[name] = store.ensure(name, progress=progress)
        except NotFoundError as error:
            if name == config.switch:
                raise
            raise no_drafter(name) from error
    target = store.ensure(str(model), progress=progress)
    if config.switch and drafts[config.switch].resolve() == target.resolve():
        from edgedec.control.switching import beside_itself

        raise beside_itself(str(model))
    return Bundles(target, drafts, adapters_for(config, target))


def adapters_for(config: RunConfig, bundle: Path) -> tuple[AdapterSource, ...]:
    """Return the adapters of ``config`` for the model in ``bundle``, which are read when it is opened."""
    if not config.lora:
        return ()
    from edgedec.export.lora.reading import read_adapter

    return tuple(partial(read_adapter, named, bundle) for named in config.lora)


class Model:
    """A loaded model with its KV cache, ready to reply. Use it in a ``with`` block, or ``close`` it.

    All chats of a model share one KV cache and take turns on it: a chat that replies after another one reads
    its conversation again. Not for several threads; ``conversations`` is.
    """

    def __init__(self, prepared: Prepared) -> None:
        """Raises MemoryBudgetError, UnsupportedError or BackendError when it cannot run so."""
        config = prepared.config
        self.config = config
        self._closed = False
        self._chats: WeakSet[Chat] = WeakSet()
        self._room_for: tuple[DrawParams, bool, bool, bool] | None = None
        """The way of drawing that the memory plan has room for."""
        self._notice = prepared.context.notice
        self.runner = Runner(prepared)
        self._switched: ReplyEngine | None = None
        """The engine in which two models take turns, where they do."""
        self._context = prepared.context
        self.prefixes = opened_prefixes(config.prefix_bytes, self.runner, prepared.context)
        """The saved prefixes, where they were asked for and are possible."""
        if config.switch is not None:
            from edgedec.switch.assembly import switched

            self._switched = switched(self.runner, config.switch, config.switch_rule, self._context)

    @property
    def name(self) -> str:
        """The model's name."""
        return self.loaded.name

    @property
    def loaded(self) -> LoadedModel:
        """Weights, tokenizer, chat template and manifest."""
        return self.runner.model

    @property
    def preset(self) -> Preset:
        """The sampling values, system message and stop strings that its manifest has."""
        return self.loaded.manifest.preset

    @property
    def sampling(self) -> DrawParams:
        """How replies are drawn unless a call says otherwise: every value of it."""
        return self.config.sampling_for(self.preset)

    @property
    def budget(self) -> Budget | None:
        """The memory plan and its ledger; None without a memory budget."""
        return self.runner.budget

    def plan(self) -> PlanStats | None:
        """Return the memory plan, and what of it has been in use so far; None without a memory budget.

        >>> model.plan() is None
        True
        """
        if self.budget is None:
            return None
        from edgedec.session.model_stats import PlanStats

        return PlanStats.of(self.budget)

    def stats(self, reply: Reply | None = None) -> ModelStats:
        """Return how the model runs: bytes, drafters, memory plan; and the figures of ``reply``, if given.

        The energy of a reply takes a second where the idle power of the machine is not known yet. Raises
        UsageError for a model that was opened for several conversations.

        >>> stats = model.stats()
        >>> stats.kv, stats.drafts.names[:2]
        ('fp16', ('lookup', 'recycling'))
        """
        from edgedec.session.model_stats import model_stats

        return model_stats(self.single, self.engine, reply)

    def make_room_for(self, params: DrawParams, *, logprobs: bool = False, grammar: bool = False) -> None:
        """Plan for replies that are drawn with ``params``, perhaps under a grammar; a notice says the cost.

        Raises MemoryBudgetError when the memory budget has no room for them.
        """
        self.single.make_room_for(params, logprobs=logprobs, grammar=grammar)

    @property
    def context(self) -> int:
        """Tokens that one conversation has room for."""
        return self.runner.forward.capacity

    def chat(
        self,
        *,
        system: str | None = None,
        messages: Iterable[Message | Mapping[str, object]] = (),
        sampling: Sampling | None = None,
        max_tokens: int | None = None,
        stop: Sequence[str] = (),
        tools: Iterable[Tool] = (),
        **named: Unpack[ReplyArguments],
    ) -> Chat:
        """Begin a conversation, or go on with ``messages``.

        - ``system`` is the system message; None for that of the model's preset, "" for none.
        - ``messages`` are ``Message`` objects or ``{"role": ..., "content": ...}``, with roles "user",
          "assistant", "tool" and, for the first one, "system": that one counts in place of ``system``.
        - ``sampling`` says how replies are drawn: ``SamplingParams``, or a mapping with names of it. Single
          values go without it: ``temperature=0.5``, ``top_p=0.9``, ``seed=3``. Values that nothing names are
          those of ``Model.sampling``.
        - ``max_tokens`` bounds a reply in tokens. None: it goes on as far as the context reaches, less room
          for the next turn.
        - ``stop`` strings end a reply, beside those of the model's preset.
        - ``tools`` are functions that replies may call: mappings in OpenAI's form, or Python functions with
          annotations and a docstring. See ``Reply.tool_calls`` and ``Chat.tool_result``.
        - One of these names the form of every reply: ``schema``, a JSON schema or a pydantic model class;
          ``regex``, a regular expression that matches all of it; ``grammar``, a grammar in Lark's form.
          A reply has that form, or its iteration ends with a GrammarError. ``Reply.parsed`` has its value.

        Raises UsageError for a form that no reply can be kept to.

        >>> with model.chat(max_tokens=5, stop=["!"]) as chat:
        ...     print(chat.reply("Hello!").read())
        Hello
        >>> asked = {"role": "user", "content": "What is 2+2?"}
        >>> model.chat(messages=[asked]).reply().read()
        'The answer to this classic math problem is 4.'
        >>> model.chat(regex="yes|no").reply("Is 2 + 2 = 4?").read() in ("yes", "no")
        True
        """
        params, form = read_arguments(sampling, **named)
        settings = self.settings(params, max_tokens, stop, form)
        self._ready(settings.drawn, form=settings.masked)
        self._check_form(settings)
        syntax = ReplySyntax(self.loaded.codec, tools_of(tools))
        return self._chat(settings, conversation_of(messages, system, self._system(None)), syntax)

    def restore(self, path: str | Path) -> Chat:
        """Continue a chat that ``Chat.save`` wrote; its KV cache is restored with it.

        Raises the errors of ``Chat.restore``.

        >>> chat = model.chat()
        >>> text = chat.reply("Name a colour.").read()
        >>> chat.save(folder / "talk")
        >>> model.restore(folder / "talk").messages[-1].content == text
        True
        """
        chat = self.chat()
        chat.restore(path)
        self._ready(chat.settings.params)
        return chat

    def complete(
        self,
        text: RawText,
        *,
        sampling: Sampling | None = None,
        max_tokens: int | None = None,
        stop: Sequence[str] = (),
        logprobs: int | None = None,
        parse_special: bool = True,
        **named: Unpack[ReplyArguments],
    ) -> Reply:
        """Continue ``text`` as it stands, without the chat template. Iterate over the reply to get its text.

        The arguments are those of ``chat``. ``logprobs``: how many alternatives to report beside each token's
        own log-probability; see ``Reply.logprobs``. Control tokens in the text, such as ``<|fim_prefix|>``,
        are tokens; with ``parse_special=False`` they are spelt, as a text of someone else should be. An
        ``Infill`` asks for the text between two others. Raises UsageError for an empty text, ContextFullError
        for one that does not fit, UnsupportedError for a gap where the model has no tokens for it.

        >>> reply = model.complete("The capital of France is", max_tokens=8, stop=["."], logprobs=2)
        >>> reply.read()
        ' Paris'
        >>> [(one.text, round(one.logprob, 2)) for one in reply.logprobs]
        [(' Paris', -0.26), ('.', -0.36)]
        >>> [one.text for one in reply.logprobs[0].top]
        [' Paris', ' the']
        """
        params, form = read_arguments(sampling, **named)
        settings = self.settings(params, max_tokens, stop, form)
        return self._chat(settings).complete(text, logprobs=logprobs, parse_special=parse_special)

    def conversations(
        self,
        *,
        system: str | None = None,
        sampling: Sampling | None = None,
        max_tokens: int | None = None,
        stop: Sequence[str] = (),
        **named: Unpack[ReplyArguments],
    ) -> Conversations:
        """Begin ``config.conversations`` chats that share each pass over the weights.

        The arguments are those of ``chat``. Raises UsageError unless the model was opened for this.

        >>> greedy = edgedec.SamplingParams.greedy()
        >>> two = edgedec.open("smollm2-135m", conversations=2, context=512, sampling=greedy)
        >>> with two, two.conversations(max_tokens=4) as several:
        ...     texts = ["One, two, three,", "def add(a, b):\\n    return"]
        ...     for answer in several.answers(texts, raw=True):
        ...         print(answer.reply.text)
         four, five,
         a + b
        <BLANKLINE>
        """
        if self.config.conversations is None:
            raise UsageError(
                "this model was opened for one conversation", hint="open it with RunConfig(conversations=4)"
            )
        from edgedec.session.conversations import Conversations

        params, form = read_arguments(sampling, **named)
        settings = self.settings(params, max_tokens, stop, form)
        self._check_form(settings)
        return Conversations(self.runner, settings, system=self._system(system))

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of ``text``, as ``complete`` would feed it.

        >>> model.count_tokens("How many tokens is this?")
        6
        """
        return len(self.loaded.tokenizer.encode(text, parse_special=True))

    def _chat(
        self, settings: Settings, messages: Sequence[Message] = (), syntax: ReplySyntax | None = None
    ) -> Chat:
        host = Host(self._notice, self._ready)
        host = self.prefixes.host_of(host, self.single.engine) if self.prefixes else host
        chat = Chat(self.engine, self.loaded.codec, settings, messages=messages, syntax=syntax, host=host)
        self._chats.add(chat)
        return chat

    def _ready(
        self, params: DrawParams, logprobs: bool = False, form: bool = False, heal: bool = False
    ) -> None:
        """Make room for a reply that is drawn so. Raises the error that stands against it."""
        self._check_open()
        if any(chat.last and chat.last.computing for chat in self._chats):
            raise UsageError(
                "another reply of this model is being computed",
                hint="read it to its end first, or open the model for several conversations",
            )
        if (asked := (params, logprobs, form, heal)) != self._room_for:
            self.single.make_room_for(params, logprobs=logprobs, grammar=form, masked=heal)
            self._room_for = asked

    def _check_form(self, settings: Settings) -> None:
        """Raise the error of a form that no reply can be kept to."""
        if settings.grammar:
            one = self.runner.engine
            constraint_for(settings.grammar, self.loaded.tokenizer, one.spec, one.ledger)

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError(f"{self.name} was closed", hint="open the model again")

    def settings(
        self,
        sampling: Sampling | None = None,
        max_tokens: int | None = None,
        stop: Sequence[str] = (),
        grammar: GrammarSpec | None = None,
    ) -> Settings:
        """Return the settings of a reply, with the model's own where none are given."""
        self._check_open()
        params, stops = chosen(sampling, self.sampling), (*self.preset.stops, *stop)
        template = self.loaded.template
        thought = template.thought(self.config.think_tokens) if template else None
        when_full = self.config.when_full or DROP
        return Settings(params, max_tokens, stops, when_full, grammar=grammar, thought=thought)

    def _system(self, given: str | None) -> str | None:
        """Return the system message of a chat; the preset's has no place where there is no template."""
        return self.preset.system if given is None and self.loaded.template else given

    def close(self) -> None:
        """End the model's use: keep the drafters' history if that was asked for, stop its threads.

        Its chats answer no more; a reply that runs ends after its current token.
        """
        self._closed = True
        for chat in self._chats:
            chat.interrupt()
        if self.prefixes:
            self.prefixes.close()
        self.runner.close()

    def __repr__(self) -> str:
        count = self.config.conversations
        runs = f"{count} conversations" if count else "one conversation"
        closed = ", closed" if self._closed else ""
        return f"<Model {self.name}: {runs}, {self.context} tokens of context{closed}>"

    __dir__ = public_names(
        "chat", "close", "complete", "config", "context", "conversations", "count_tokens", "name", "plan",
        "preset", "restore", "sampling", "stats",
    )  # fmt: skip

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def engine(self) -> ReplyEngine:
        """The engine of a model that was opened for one conversation. Raises UsageError for another one."""
        return self._switched or self.single.engine

    @property
    def engines(self) -> tuple[ReplyEngine, ...]:
        """The engines of its conversations, one or several."""
        return (self._switched,) if self._switched else self.runner.engines

    def hand_over_to(self, side: TextSide, rule: SwitchRule | None = None) -> None:
        """Let a large model elsewhere write where this one is unsure; ``rule``: None for the usual one.

        For the chats and completions that begin from now on. The conversation is sent to ``side``.
        """
        from edgedec.control.switching import REMOTE_RULE
        from edgedec.switch.assembly import with_side

        rule = rule or self.config.switch_rule or REMOTE_RULE
        self._switched = with_side(self.single, side, rule, self._context)

    @property
    def single(self) -> Runner:
        """The runner of a model that was opened for one conversation. Raises UsageError for another one."""
        if self.config.conversations is not None:
            raise UsageError(
                f"this model was opened for {self.config.conversations} conversations",
                hint="use Model.conversations, or open it without that setting",
            )
        return self.runner
