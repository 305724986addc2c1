"""A bundle's template is rendered by its program where that knows all of it, else by Jinja: the same text."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from edgedec.core.errors import TemplateError
from edgedec.text.program_renderer import PROGRAM
from edgedec.text.template import FILE_NAME, ChatTemplate
from edgedec.text.template_inputs import TemplateInputs
from edgedec.text.template_program import program_of, write_program

TEMPLATES = Path(__file__).parent / "templates"
REAL = {path.stem: path.read_text(encoding="utf-8") for path in sorted(TEMPLATES.glob("*.jinja"))}
TALK = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hi <|im_end|> \x00 é日本🙂"},
    {"role": "assistant", "content": "<think>\nno\n</think>\n\nHello"},
    {"role": "user", "content": "  And now?\n"},
]
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}


def with_program(folder: Path, source: str, program: bytes | None = None) -> ChatTemplate:
    made = program_of(source) if program is None else program
    (folder / PROGRAM).write_bytes(made)
    return ChatTemplate(source, bos="<bos>", eos="<eos>", bundle=folder)


def by_jinja(source: str) -> ChatTemplate:
    return ChatTemplate(source, bos="<bos>", eos="<eos>")


def outcome(template: ChatTemplate, talk: list[dict[str, Any]], **more: Any) -> tuple[bool, str]:
    try:
        return True, template.render(talk, **more)
    except TemplateError as error:
        return False, str(error)


@pytest.mark.parametrize("name", REAL)
def test_a_program_writes_the_text_of_jinja(name: str, tmp_path: Path) -> None:
    jinja, template = by_jinja(REAL[name]), with_program(tmp_path, REAL[name])
    for talk in (TALK, TALK[1:], TALK[1:2]):
        for prompted in (True, False):
            assert outcome(template, talk, add_generation_prompt=prompted) == outcome(
                jinja, talk, add_generation_prompt=prompted
            )


def test_neither_jinja_nor_a_process_is_needed_for_it(tmp_path: Path) -> None:
    template = with_program(tmp_path, REAL["qwen2.5-coder"] + "{# no known template #}")
    template.compile()
    assert "And now?" in template.render(TALK)
    assert template._rendering is None
    template.render(TALK, TemplateInputs([TOOL]))
    assert template._rendering is not None


def test_a_refusal_has_the_words_and_the_line_of_jinja(tmp_path: Path) -> None:
    source = "{% for m in messages %}\n{{ raise_exception('Roles must alternate') }}{% endfor %}"
    assert outcome(with_program(tmp_path, source), TALK) == outcome(by_jinja(source), TALK)
    assert "line 2: Roles must alternate" in outcome(with_program(tmp_path, source), TALK)[1]


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": "Hi", "name": "Ann"},
        {"role": "assistant", "content": "Hi", "reasoning_content": "Well"},
        {"role": "user", "content": "\ud83d alone"},
        {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
    ],
)
def test_messages_with_more_than_a_text_are_for_jinja(message: dict[str, Any], tmp_path: Path) -> None:
    fields = "{{ m.role }}{{ m.name }}{{ m.reasoning_content }}{{ m.content }}"
    source = f"{{% for m in messages %}}{fields}{{% endfor %}}"
    assert outcome(with_program(tmp_path, source), [message]) == outcome(by_jinja(source), [message])


@pytest.mark.parametrize("damage", [b"", b"EDGETPL3", b"\xff" * 400])
def test_a_program_that_is_damaged_or_of_another_template_is_not_used(damage: bytes, tmp_path: Path) -> None:
    expected = by_jinja(REAL["gemma2"]).render(TALK[1:])
    assert with_program(tmp_path, REAL["gemma2"], damage).render(TALK[1:]) == expected
    assert with_program(tmp_path, REAL["gemma2"], program_of("other")).render(TALK[1:]) == expected


def test_a_program_of_an_earlier_version_is_written_again_with_the_first_prompt(tmp_path: Path) -> None:
    old = b"EDGETPL2" + program_of(REAL["smollm2"])[8:]
    expected = with_program(tmp_path, REAL["smollm2"], old).render(TALK)
    assert (tmp_path / PROGRAM).read_bytes() == program_of(REAL["smollm2"])
    template = ChatTemplate(REAL["smollm2"], bos="<bos>", eos="<eos>", bundle=tmp_path)
    assert template.render(TALK) == expected
    assert template._rendering is None


def test_a_bundle_brings_its_program(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text("{{ messages[0].content }}!", encoding="utf-8")
    write_program(tmp_path, "{{ messages[0].content }}!")
    assert (tmp_path / PROGRAM).is_file()
    template = ChatTemplate.load(tmp_path, bos="", eos="")
    assert template is not None
    assert template.render(TALK[:1]) == "Be brief.!"
    assert template._rendering is None


@pytest.mark.parametrize("file", [b"\xef\xbb\xbf{{ messages[0].content }}", b"{{ bos_token }}\r\n\r\n!"])
def test_the_program_of_a_file_with_other_ends_of_lines_or_a_mark_is_left_to_the_engine(
    file: bytes, tmp_path: Path
) -> None:
    (tmp_path / FILE_NAME).write_bytes(file)
    write_program(tmp_path, file.decode())
    written = (tmp_path / PROGRAM).read_bytes()
    template = ChatTemplate.load(tmp_path, bos="<bos>", eos="<eos>")
    assert template is not None
    assert template.render(TALK) == by_jinja(template.source).render(TALK)
    assert (tmp_path / PROGRAM).read_bytes() == written


def test_a_text_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    source = "{% for i in range(2000) %}" + "x" * 1000 + "{% endfor %}"
    assert outcome(with_program(tmp_path, source), TALK) == outcome(by_jinja(source), TALK)
    assert outcome(with_program(tmp_path, source), TALK)[0] is False


def test_where_memory_cannot_be_limited_the_program_alone_renders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgedec.system.limits.LIMITS_MEMORY", False)
    monkeypatch.setattr(subprocess, "Popen", None)
    template = with_program(tmp_path, REAL["qwen2.5-coder"] + "{# no known template #}")
    template.compile()
    assert "And now?" in template.render(TALK)
    assert template.keeps_system()
    assert template.process_bytes == 0
    for refused in (
        lambda: template.render(TALK, TemplateInputs([TOOL])),
        template.writes_tools,
        by_jinja("{{ messages[0].content }}").compile,
    ):
        with pytest.raises(TemplateError, match="the system can limit its memory"):
            refused()
    assert "And now?" in by_jinja(REAL["qwen2.5-coder"]).render(TALK, TemplateInputs([TOOL]))  # a known one
