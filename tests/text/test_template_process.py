"""Templates that are not known run in one process that serves all turns, and give what they gave before."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from edgedec.core.errors import TemplateError
from edgedec.text import line_process, template_worker
from edgedec.text.known_templates import KNOWN_TEMPLATES
from edgedec.text.sandbox import CompiledTemplate
from edgedec.text.template import ChatTemplate
from edgedec.text.template_process import PROCESS_BYTES, TemplateProcess
from tests.patience import PATIENCE_S

TEMPLATES = sorted((Path(__file__).parent / "templates").glob("*.jinja"))
MESSAGES = [
    {"role": "user", "content": "Hi ü \U0001f600 \ud800 \u2028 {{ x }}"},
    {"role": "assistant", "content": ' "Hello"\\\n\n '},
    {"role": "user", "content": ""},
]
UNKNOWN = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"


def variables(messages: list[dict[str, str]]) -> dict[str, object]:
    return {"messages": messages, "bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": True}


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_a_process_renders_the_same_text(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    here, there = CompiledTemplate(source), TemplateProcess(source)
    for messages in (MESSAGES[:1], MESSAGES):
        expected = here.render(variables(messages), 10_000)
        assert messages[0]["content"].strip() in expected
        assert there.render(variables(messages), 10_000) == expected


def test_the_known_templates_are_those_of_these_files() -> None:
    hashes = {hashlib.sha256(path.read_bytes()).hexdigest() for path in TEMPLATES}
    assert hashes == set(KNOWN_TEMPLATES)


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_a_known_template_starts_no_process(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "Popen", None)
    template = ChatTemplate(path.read_text(encoding="utf-8"), bos="<s>", eos="</s>")
    assert "Hello" in template.render(MESSAGES)
    assert template.process_bytes == 0


def process_of(template: ChatTemplate) -> Any:
    """The process that renders a compiled template."""
    return template._rendering.__self__._process.process  # type: ignore[union-attr]


def test_one_process_serves_all_turns_and_ends_with_the_template() -> None:
    template = ChatTemplate(UNKNOWN, bos="", eos="")
    assert template.process_bytes == PROCESS_BYTES
    template.compile()
    process = process_of(template)
    for _ in range(50):
        assert template.render(MESSAGES[1:]) == 'assistant:  "Hello"\\\n\n \nuser: \n'
    assert process_of(template) is process
    del template
    assert process.returncode is not None


def test_a_process_that_was_killed_is_an_error_and_the_next_turn_starts_another() -> None:
    template = ChatTemplate(UNKNOWN, bos="", eos="")
    template.compile()
    process_of(template).kill()
    with pytest.raises(TemplateError, match="it crashed its process"):
        template.render(MESSAGES)
    assert template.render(MESSAGES[2:]) == "user: \n"


def test_a_process_that_gets_no_processor_time_is_not_called_a_broken_template(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    template = TemplateProcess("{{ messages[0].content }}")
    assert template._process is not None
    template._process.process.send_signal(signal.SIGSTOP)
    monkeypatch.setattr("edgedec.text.template_process._BACKSTOP_S", 0.2)
    with pytest.raises(TemplateError, match="no answer within"):
        template.render({"messages": [{"role": "user", "content": "hello"}]}, 1000)
    monkeypatch.undo()
    assert template.render({"messages": [{"role": "user", "content": "hello"}]}, 1000) == "hello"


def test_a_refusal_leaves_the_template_usable() -> None:
    template = ChatTemplate("{% if not messages %}\n{{ raise_exception('No!') }}{% endif %}x", bos="", eos="")
    for _ in range(2):
        with pytest.raises(TemplateError, match="failed in line 2: No!"):
            template.render([])
        assert template.render(MESSAGES) == "x"


def test_an_interrupted_turn_does_not_answer_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    process = TemplateProcess(UNKNOWN)
    exchange = line_process.exchange

    def interrupted(*args: object) -> bytes:
        exchange(*args)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(line_process, "exchange", interrupted)
    with pytest.raises(KeyboardInterrupt):
        process.render(variables(MESSAGES[:2]), 1000)
    monkeypatch.setattr(line_process, "exchange", exchange)
    assert process.render(variables(MESSAGES[2:]), 1000) == "user: \n"


def test_threads_take_turns() -> None:
    template = ChatTemplate(UNKNOWN, bos="", eos="")
    results: dict[int, list[str]] = {}

    def talk(number: int) -> None:
        messages = [{"role": "user", "content": str(number) * 1000}]
        results[number] = [template.render(messages) for _ in range(20)]

    threads = [threading.Thread(target=talk, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {number: [f"user: {str(number) * 1000}\n"] * 20 for number in range(4)}


def test_without_processes_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(TemplateError, match="cannot start a process for the chat template"):
        ChatTemplate(UNKNOWN, bos="", eos="").compile()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_the_process_ends_when_this_program_is_killed(number: signal.Signals) -> None:
    program = (
        "import time\n"
        "from edgedec.text.template_process import TemplateProcess\n"
        f"template = TemplateProcess({UNKNOWN!r})\n"
        "print(template._process.process.pid, flush=True)\n"
        "time.sleep(3600)\n"
    )
    pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen([sys.executable, "-c", program], stdout=pipe, stderr=nowhere, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.send_signal(number)
    deadline = time.monotonic() + PATIENCE_S
    while _runs(child):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return sys.platform != "linux"


def test_a_text_of_the_largest_size_fits_into_the_process() -> None:
    messages = [{"role": "user", "content": "\U0001f600" * 1000}] * 250
    text = TemplateProcess(UNKNOWN).render(variables(messages), 1_000_000)
    assert len(text) == 250 * 1007


def test_a_process_that_cannot_be_limited_renders_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Windows whose job objects keep to nothing, as Wine's do."""

    def limit(nbytes: int) -> None:
        raise OSError("Windows does not limit the memory of this process")

    monkeypatch.setattr(template_worker.limits, "limit_address_space", limit)
    monkeypatch.setattr(template_worker.limits, "on_interruption", lambda stop: None)
    with pytest.raises(TemplateError, match=r"^no process can render .* safely: Windows"):
        template_worker._Worker().answer(b'{"source": "hi"}')
