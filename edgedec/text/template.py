"""Renders chat templates: Jinja programs that come with a model and are not trusted.

- All templates run in a sandbox: no access to internals, no changes to messages, a bounded result.
- A bundle has its template as a program, too, which the kernel library renders (``template_program``). Jinja
  does what that does not know: tools, options, and constructs that few templates have.
- Templates that are not in ``known_templates`` run in a process of limited processor time and memory. Where
  the system cannot limit memory (``system.limits``) Jinja runs none of them: what their program does not
  render is refused.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgedec.core.errors import BadFileError, EdgeDecError, Remedy, TemplateError
from edgedec.disk.digest import sha256_hex
from edgedec.text.channels import has_channels
from edgedec.text.known_templates import KNOWN_TEMPLATES
from edgedec.text.program_renderer import PROGRAM, render_program
from edgedec.text.template_inputs import (
    Plain,
    TemplateInputs,
    complete_tool,
    in_system_message,
    with_thoughts,
)
from edgedec.text.thinking import thinking_option, thinks

if TYPE_CHECKING:
    from edgedec.text.template_tools import ToolForms
    from edgedec.text.thought import ThoughtRule
    from edgedec.text.tool_calls.family import Family

FILE_NAME = "chat_template.jinja"
_GREETING = {"role": "user", "content": "Hello"}
MAX_CHARS = 1_000_000
"""Most characters of the result, beyond four times those of messages and tools."""


def without_bom(text: str) -> str:
    """Return a text without the mark that some editors put before it."""
    return text.removeprefix("\ufeff")


class ChatTemplate:
    """A chat template; ``bos`` and ``eos`` are the texts that it sees as ``bos_token`` and ``eos_token``.

    ``options`` are variables of its own, where a conversation names no other values. ``bundle``: the folder
    that may keep its program.
    It is compiled at first use, so that raw prompts neither wait for that nor fail with it. Several threads
    may render; they take turns.
    """

    def __init__(
        self,
        source: str,
        *,
        bos: str,
        eos: str,
        options: Mapping[str, Plain] | None = None,
        bundle: Path | None = None,
    ) -> None:
        self.source = source
        self._bundle = bundle
        self._program: bytes | None = None
        if bundle is not None:
            with suppress(OSError):
                self._program = (bundle / PROGRAM).read_bytes()
        self.options = dict(options or {})
        self._bos = bos
        self._eos = eos
        self._rendering: Callable[[Mapping[str, Any], int], str] | None = None
        self._forms: ToolForms | None = None
        self._keeps_system: bool | None = None
        self._lock = threading.Lock()

    @classmethod
    def load(cls, bundle_dir: Path, *, bos: str, eos: str) -> ChatTemplate | None:
        """Read the bundle's template; return None for a model without one.

        Raises BadFileError when it cannot be read.
        """
        path = bundle_dir / FILE_NAME
        try:
            source = without_bom(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise BadFileError(
                f"cannot read {path}: {error}", hint="export or pull the model again"
            ) from error
        as_it_lies = path.stat().st_size == len(source.encode())  # the program is of the file's own bytes
        return cls(source, bos=bos, eos=eos, bundle=bundle_dir if as_it_lies else None)

    @property
    def known(self) -> bool:
        """True for a template in ``known_templates``, which is rendered in this process."""
        return sha256_hex(self.source.encode("utf-8", "surrogatepass")) in KNOWN_TEMPLATES

    @property
    def process_bytes(self) -> int:
        """Most memory, in bytes, of the process that renders the template; 0 for one that needs none."""
        from edgedec.text.template_process import PROCESS_BYTES

        return PROCESS_BYTES if not self.known and _limits_memory() else 0

    def compile(self) -> None:
        """Compile the template now. Raises TemplateError, naming the line, if it is not valid Jinja.

        One whose program renders is valid: Jinja has read it before.
        """
        with self._lock, _hinted():
            if self._by_program([_GREETING], TemplateInputs(), True) is None:
                self._ready()

    def thought(self, limit: int | None = None) -> ThoughtRule | None:
        """Return the rule of thoughts in replies; None where there is neither a thought nor a limit on it."""
        if limit is None and not thinks(self.source):
            return None
        from edgedec.text.thought import ThoughtRule

        return ThoughtRule.of(self.source, limit)

    def thinking(self, on: bool) -> ChatTemplate:
        """Return the template with thinking turned on or off. Raises UsageError where it has no switch."""
        options = self.options | thinking_option(self.source, on)
        return ChatTemplate(self.source, bos=self._bos, eos=self._eos, options=options)

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        inputs: TemplateInputs | None = None,
        *,
        add_generation_prompt: bool = True,
    ) -> str:
        """Return the prompt for ``messages``, each with ``role`` and ``content``.

        A message may have OpenAI's further fields, with the arguments of tool calls as values. Raises
        UnsupportedError for tools and calls that the template does not write; TemplateError, naming the line,
        if it is not valid, fails, refuses the messages (in its own words), or exceeds its limits.
        """
        inputs = inputs or TemplateInputs()
        with self._lock, _hinted():
            if inputs.tools or any(message.get("tool_calls") for message in messages):
                forms = self._tool_forms()
                forms.check(messages, inputs.tools)
                messages = forms.ready(messages)
            return self._render(messages, inputs, add_generation_prompt)

    def writes_tools(self) -> bool:
        """Return whether the template writes tools into the prompt. Raises TemplateError for a broken one."""
        with self._lock, _hinted():
            return self._tool_forms().declares

    def call_family(self) -> Family | None:
        """Return the form in which the model writes calls of tools; None for one that is not known.

        Raises TemplateError for a broken template.
        """
        with self._lock, _hinted():
            return self._tool_forms().family

    def keeps_system(self) -> bool:
        """Return whether it writes later system messages in their place. Raises TemplateError."""
        with self._lock, _hinted():
            if self._keeps_system is None:
                from edgedec.text.template_tools import keeps_system

                if self.known or _limits_memory():
                    self._ready()  # a broken template says so before it is probed
                self._keeps_system = keeps_system(self._probe)
            return self._keeps_system

    def _tool_forms(self) -> ToolForms:
        if self._forms is None:
            from edgedec.text.template_tools import tool_forms  # imports all forms of calls

            self._ready()  # a broken template says so before it is probed
            self._forms = tool_forms(self._probe, self.source)
        return self._forms

    def _probe(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> str:
        return self._render(messages, TemplateInputs(tools), True)

    def _render(
        self, messages: Sequence[Mapping[str, Any]], inputs: TemplateInputs, add_generation_prompt: bool
    ) -> str:
        if (text := self._by_program(messages, inputs, add_generation_prompt)) is not None:
            return text
        tools = [complete_tool(tool) for tool in inputs.tools] or None
        given = with_thoughts(messages) if has_channels(self.source) else [dict(one) for one in messages]
        if tools and "message['tools']" in self.source:
            given = in_system_message(given, tools)
        variables = {
            **self.options,
            **inputs.options,
            "messages": given,
            "add_generation_prompt": add_generation_prompt,
            "bos_token": self._bos,
            "eos_token": self._eos,
            "tools": tools,
            "documents": None,
        }
        if tools and "xml_tools" in self.source:  # SmolLM3's name for them
            variables["xml_tools"] = tools
        return self._ready()(variables, _most_chars([*messages, *inputs.tools]))

    def _by_program(
        self, messages: Sequence[Mapping[str, Any]], inputs: TemplateInputs, add_generation_prompt: bool
    ) -> str | None:
        """Return the text that the program writes; None for what is Jinja's to write, or to refuse."""
        if self._program is None or has_channels(self.source):
            return None
        if inputs.tools or inputs.options or self.options:
            return None
        if any(message.keys() != {"role", "content"} for message in messages):
            return None
        turns = [(message["role"], message["content"]) for message in messages]
        if not all(isinstance(text, str) for turn in turns for text in turn):
            return None
        texts = self.source, self._bos, self._eos
        text = render_program(self._program, texts, turns, add_generation_prompt)
        return text if text is None or len(text) <= _most_chars(messages) else None

    def _ready(self) -> Callable[[Mapping[str, Any], int], str]:
        if self._rendering is None:
            if self.known:
                from edgedec.text.sandbox import CompiledTemplate  # imports Jinja, which takes a while

                self._rendering = CompiledTemplate(self.source).render
                self._keep_program()
            elif not _limits_memory():
                raise TemplateError(
                    "this chat template is none that EdgeDec knows, and a part that it needs here runs only"
                    " where the system can limit its memory, which macOS cannot"
                )
            else:
                from edgedec.text.template_process import TemplateProcess

                self._rendering = TemplateProcess(self.source).render
        return self._rendering

    def _keep_program(self) -> None:
        """Write the program of a bundle that has none, or that of an earlier version, for the next start."""
        from edgedec.text.template_program import keep_program

        if self._bundle is not None:
            with suppress(OSError, EdgeDecError):
                keep_program(self._bundle, self.source)


@contextmanager
def _hinted() -> Iterator[None]:
    try:
        yield
    except TemplateError as error:
        hint = "complete a text without the template"
        raise TemplateError(error.message, hint=hint, remedy=Remedy("raw")) from error


def _limits_memory() -> bool:
    from edgedec.system.limits import LIMITS_MEMORY  # known templates need none

    return LIMITS_MEMORY


def _most_chars(values: Sequence[Mapping[str, Any]]) -> int:
    """Return the most characters of a prompt. A template may repeat some contents, never many times over."""
    return MAX_CHARS + 4 * _chars(values)


def _chars(values: Sequence[Mapping[str, Any]]) -> int:
    """Count the characters of texts, of deeper ones as JSON escapes them."""
    items = [item for value in values for item in value.values()]
    return sum(len(item if isinstance(item, str) else json.dumps(item)) for item in items)
