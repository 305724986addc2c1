"""ChatTemplate: what templates may use, how failures name their line, and what hostile ones cannot do."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from edgedec.core.errors import BadFileError, TemplateError
from edgedec.text.template import MAX_CHARS, ChatTemplate
from tests.fixtures.nightly import every

MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi ü <b>"}]


def render(source: str, messages: list[dict[str, str]] | None = None) -> str:
    return ChatTemplate(source, bos="<s>", eos="</s>").render(MESSAGES if messages is None else messages)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ bos_token }}|{{ eos_token }}|{{ add_generation_prompt }}", "<s>|</s>|True"),
        ("{% for m in messages %}\n  {{ m.role }}\n{% endfor %}\n", "  system\n  user\n"),
        ("  {% if true %}\nx\n  {% endif %}\n", "x\n"),
        (
            "{%- for m in messages %}{{ loop.index0 ~ ':' ~ m['content'] }};{%- endfor %}",
            "0:Be brief.;1:Hi ü <b>;",
        ),
        ("{{ messages[1] | tojson }}", '{"role": "user", "content": "Hi ü <b>"}'),
        ("{{ {'b': 1, 'a': [2]} | tojson(indent=1) }}", '{\n "b": 1,\n "a": [\n  2\n ]\n}'),
        ("{% if tools %}T{% endif %}{% if messages[0].tool_calls is defined %}D{% endif %}x", "x"),
        ("{% for m in messages %}{% if loop.last %}{% break %}{% endif %}{{ m.role }}{% endfor %}", "system"),
        (
            "{% set x = namespace(n=0) %}{% for m in messages %}{% set x.n = x.n + 1 %}{% endfor %}{{ x.n }}",
            "2",
        ),
        ("{% generation %}{{ messages[0].role }}{% endgeneration %}", "system"),
        ("{% macro f(x) %}[{{ x }}]{% endmacro %}{{ f('a') ~ f('b') }}", "[a][b]"),
        ("{{ messages[1].content.split(' ')[0] | trim | upper }}", "HI"),
        (
            "{{ ['a', 'b'] | join(', ') }}{{ 'x' | indent(2, true) }}{{ 'aXa' | replace('X', '-') }}",
            "a, b  xa-a",
        ),
        ("{{ messages | map(attribute='role') | join('+') }}", "system+user"),
        (
            "{{ '{}'.format(99999999) }}{{ '%s=%d' | format('a', 3) }}{{ 'a%s' % 5 }}{{ 'ab' * 2 }}",
            "99999999a=3a5abab",
        ),
    ],
)
def test_renders(source: str, expected: str) -> None:
    assert render(source) == expected


def test_generation_prompt_is_optional() -> None:
    template = ChatTemplate("a{% if add_generation_prompt %}b{% endif %}", bos="", eos="")
    assert template.render([], add_generation_prompt=False) == "a"
    assert template.render([]) == "ab"


def test_strftime_now_gives_the_date() -> None:
    assert re.fullmatch(r"\d{4}-\d\d", render("{{ strftime_now('%Y-%m') }}"))


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("ok\n{% for m in messages %}", r"broken in line 2"),
        ("{{ 'a' | no_such_filter }}", r"broken in line 1.*no_such_filter"),
        ("\n\n{{ raise_exception('Roles must alternate') }}", r"failed in line 3: Roles must alternate"),
        ("a\n{{ messages[7].content }}", r"failed in line 2"),
        ("\n{{ 1 / 0 }}", r"failed in line 2: division by zero"),
        ("\n{{ messages[0].role + 1 }}", r"failed in line 2"),
        ("\n{% macro f() %}{{ f() }}{% endmacro %}\n{{ f() }}", r"failed in line \d: too deep a recursion"),
        ("{% include 'x' %}", r"failed in line 1"),
        ("{{ missing.attribute }}", r"failed in line 1.*missing"),
    ],
)
def test_failures_name_the_line(source: str, words: str) -> None:
    with pytest.raises(TemplateError, match=words):
        render(source)


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.append(1) }}",
        "{{ cycler.__init__.__globals__.os }}",
        "{{ messages[0].update(role='x') }}",
        "{{ ''.format.__self__.__class__.__subclasses__() }}",
    ],
)
def test_the_sandbox_holds(source: str) -> None:
    with pytest.raises(TemplateError, match="failed in line 1"):
        render(source)


def test_format_strings_see_no_internals() -> None:
    assert render("{{ '[{0.__class__.__init__}]'.format(messages) }}") == "[]"


_LONG = "{% set x = 'a' * 90000 %}"


UNBOUNDED = (
    "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    _LONG + "{% for i in x %}{% for j in x %}{% endfor %}{% endfor %}",
    "{% macro f(n) %}{% if n %}{{ f(n-1) }}{{ f(n-1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    "{% for i in [range(99999)] recursive %}{% for j in i %}{{ loop([[0, 1]]) }}{% endfor %}{% endfor %}",
    "{% for i in range(99999) %}" + "x" * 100 + "{% endfor %}",
    "{% set ns = namespace(s='aa') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
    "{% set ns = namespace(s='aa') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
    "{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
    "{{ 'a' * 1000000000 }}",
    "{{ [0] * 1000000000 }}",
    "{{ 9 ** (9 ** 9) }}",
    "{{ 'a'.ljust(1000000000) }}",
    "{{ 'a' | center(1000000000) }}",
    "{{ 'a' | indent(1000000000, true) }}",
    "{{ '%1000000000d' | format(1) }}",
    "{{ '%1000000000d' % 1 }}",
    "{{ '{:1000000000}'.format(1) }}",
    _LONG + "{{ x | replace('a', x) }}",
    _LONG + "{{ x.replace('a', x) }}",
    _LONG + "{{ x.join(x | list) }}",
    _LONG + "{{ x | list | join(x) }}",
    "{{ range(999999999) | list }}",
)


@pytest.mark.parametrize("source", every(2, UNBOUNDED))
def test_work_and_memory_are_bounded(source: str) -> None:
    with pytest.raises(TemplateError):
        render(source)


def test_a_long_conversation_fits_and_the_count_starts_again() -> None:
    messages = [{"role": "user", "content": "word " * 20_000}] * 30
    template = ChatTemplate("{% for m in messages %}{{ m.content | trim }}\n{% endfor %}", bos="", eos="")
    assert len(template.render(messages)) > MAX_CHARS
    looping = ChatTemplate("{% for i in range(90000) %}{% endfor %}", bos="", eos="")
    assert [looping.render([]) for _ in range(15)] == [""] * 15


def test_load(tmp_path: Path) -> None:
    assert ChatTemplate.load(tmp_path, bos="", eos="") is None
    path = tmp_path / "chat_template.jinja"
    path.write_text("é{{ eos_token }}", encoding="utf-8")
    template = ChatTemplate.load(tmp_path, bos="", eos="!")
    assert template is not None
    assert template.render([]) == "é!"
    path.write_bytes(b"\xff")
    with pytest.raises(BadFileError, match="cannot read"):
        ChatTemplate.load(tmp_path, bos="", eos="")


def test_a_template_can_not_ask_for_filler_text() -> None:
    with pytest.raises(TemplateError, match="'lipsum' is undefined"):
        ChatTemplate("{{ lipsum(n=99999) }}", bos="", eos="").render([])


def test_long_expressions_compile_at_once_or_not_at_all() -> None:
    started = time.process_time()
    with pytest.raises(TemplateError, match="broken"):
        ChatTemplate("{{ messages" + "['role']" * 400 + " }}", bos="", eos="").render([])
    assert time.process_time() - started < 2  # with Jinja's optimizer it takes the cube of the length
    with pytest.raises(TemplateError, match="longer than 1,000,000 characters"):
        ChatTemplate("x" * 1_000_001, bos="", eos="").render([])
