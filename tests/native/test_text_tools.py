"""text/: the engine's templates with tools, calls and results beside Jinja's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from edgedec.core.errors import TemplateError
from edgedec.native.text_probe import NativeError, TextProbe
from edgedec.text.sandbox import CompiledTemplate
from edgedec.text.template import MAX_CHARS
from edgedec.text.template_program import program_of
from tests.native.tool_talks import ARGUMENTS, SOURCES, TALKS, TOOLS, USER

Talk = list[dict[str, Any]]


@pytest.fixture(scope="module")
def probe() -> Iterator[TextProbe]:
    with TextProbe() as found:
        yield found


def rendered(template: CompiledTemplate, talk: Talk, tools: list[dict[str, Any]]) -> str | None:
    """Return the text that Jinja writes; None where it fails."""
    variables = {
        "messages": talk,
        "add_generation_prompt": True,
        "bos_token": "<bos>",
        "eos_token": "<eos>",
        "tools": tools or None,
        "documents": None,
    }
    try:
        return template.render(variables, MAX_CHARS)
    except TemplateError:
        return None


def answered(probe: TextProbe, talk: Talk, tools: list[dict[str, Any]]) -> str | None:
    try:
        return probe.render(talk, tools, raw=True)
    except NativeError as error:
        if error.code != 4:
            raise
        return None


def use(probe: TextProbe, source: str) -> CompiledTemplate:
    probe.use_template(program_of(source), source, bos="<bos>", eos="<eos>")
    return CompiledTemplate(source)


@pytest.mark.parametrize("name", SOURCES)
def test_prompts_with_tools_are_those_of_jinja(name: str, probe: TextProbe) -> None:
    template = use(probe, SOURCES[name])
    whole = 0
    for talk in TALKS.values():
        for tools in ([], TOOLS[:1], TOOLS):
            expected = rendered(template, talk, tools)
            assert answered(probe, talk, tools) == expected, talk
            whole += expected is not None
    assert whole >= 3


EXPRESSIONS = (
    "tools",
    "tools | length ~ tools[0] | length ~ tools[0].function.name",
    "tools | tojson",
    "tools[2] | tojson(indent=4) ~ [] | tojson(indent=2) ~ [{}] | tojson(indent=1)",
    "tools[2] | tojson(ensure_ascii=true) ~ tools[2] | tojson(separators=(',', ':'), sort_keys=true)",
    "values | items | list",
    "values.items() | list ~ values.keys() | list ~ values.values() | list",
    "values | dictsort",
    "values['far'] ~ values.zero ~ values.more.a.b",
    "values.get('days') ~ values.get('nothing', 'x') ~ values.get('nothing')",
    "'days' in values ~ ('x' in values) ~ (values.nothing is defined)",
    "values is mapping and values.list is sequence and values.days is integer and values.far is number",
    "values.far == 1e22 or values.days < 4",
    "values.days == 3 and values.far > 2 and values.more.a.b[1] == 2.5",
    "values['items'] is mapping ~ ('m' if values['items'] else 'n') ~ values.items is string",
    "tools[0] == tools[0] and tools[0] != tools[1] and values == {'days': 3}",
    "messages[0].content.content is defined ~ ('type' in messages[0].content) ~ messages[0].content['type']",
    "{'a': 1, 'b': [2], 'a': 3}",
    "tools | selectattr('type', 'equalto', 'function') | list | length",
    "tools | rejectattr('type', 'equalto', 'function') | list | length ~ nothing | selectattr('x') | list",
    "[1, 2, 3] | reject('equalto', 2) | join(', ') ~ [0, 1] | select | list",
    "('<' | safe) + '<' ~ '|' ~ '<' + (values | tojson | safe)",
    "'-' * 3 ~ 'ab' * 0",
    "range(5, -1, -2) | list ~ range(0, 7, 3) | list",
    "['it\\'s', 'a \"b\"', 'both \\' \"', 'é日\\n\\t\\\\\\x7f\\xad', none, true, 1.0]",
    "(1, 'a') ~ (1,) ~ () ~ (1, 2)[:1] ~ [(1, 2)] | list ~ (1, [2.5]) | tojson",
    "values.items() | tojson",
    "values.nothing.more is defined",
    "values.days.nothing is defined",
    "none.items()",
    "'x'.items()",
    "values.days.items()",
    "'x' | items | list",
    "1 is divisibleby 1 and 1.5 is number and 1.5 is not integer",
)
PROGRAMS = (
    "{% for k, v in values.items() %}{{ loop.index }}{{ k }}={{ v }};{% endfor %}",
    "{% for k, v in values | items if v is not mapping and k != 'far' %}{{ k ~ loop.last }}{% endfor %}",
    "{% for k in values %}{{ k }}{% endfor %}{% for a, b in [[1, 2], 'xy'] %}{{ a ~ b }}{% endfor %}",
    "{% for a, b in [[1, 2, 3]] %}{{ a }}{% endfor %}",
    "{% for t in tools if t.function.description %}{{ t.function.name }}{% else %}none{% endfor %}",
    "{% set a, b = [1, 2] %}{{ a ~ b }}",
    "{% macro f(x, y=2, z=x) %}[{{ x ~ y ~ z }}]{% endmacro %}{{ f(1) ~ f(1, 3) ~ f(z=4, x=5) ~ f() }}",
    "{% macro f(x) %}{{ x }}{% endmacro %}{{ f(1, 2) }}",
    "{% macro f(x) %}{{ x }}{% endmacro %}{{ f(y=2) }}",
    "{% macro f(x) %}{{ x }}{% endmacro %}{{ f(1, x=2) }}",
    "{% macro f(x) %}{% for y in x %}{{ f(y) if y is sequence and y is not string else y }},{% endfor %}"
    "{% endmacro %}{{ f([1, [2, [3, 'a']]]) }}",
    "{% macro b(x) %}{{ a(x) }}{% endmacro %}{% macro a(x) %}<{{ x }}>{% endmacro %}{{ b(1) | length }}",
    "{% set g = 'out' %}{% macro f() %}{{ g ~ x ~ m }}{% set g = 'in' %}{{ g }}{% endmacro %}"
    "{% for m in [1] %}{% set g = 'loop' %}{% set x = 1 %}{{ f() }}{% endfor %}{{ g }}{% set g = 'new' %}"
    "{{ f() }}",
    "{% set ns = namespace(n=0) %}{% macro f() %}{% set ns.n = ns.n + 1 %}{{ loop is defined }}{% endmacro %}"
    "{% for i in [1, 2] %}{{ f() }}{% endfor %}{{ ns.n }}",
    "{% set x %}{{ values | tojson }}{% endset %}{{ x | length }}",
)
VALUES = "{% set values = messages[0].values %}"


@pytest.mark.parametrize("source", [*(f"{{{{ {one} }}}}" for one in EXPRESSIONS), *PROGRAMS])
def test_values_are_those_of_jinja(source: str, probe: TextProbe) -> None:
    """Values reach the template as a field of a message that has the name of a method of Python's dict."""
    source = VALUES.replace(".values", "['values']") + source
    template = use(probe, source)
    talk = [{**USER, "values": ARGUMENTS}]
    assert answered(probe, talk, TOOLS) == rendered(template, talk, TOOLS)


REFUSED = {
    "{{ ('<' | safe).strip() }}": "a method of something that is no plain text",
    "{{ ('<' | safe)[0] }}": "an item of a text that is marked as safe",
    "{{ '<' | safe | upper }}": "a filter of a text that is marked as safe",
    "{{ {1: 2} }}": "a key that is no text",
    "{{ {'É': 2} | dictsort }}": "the case of letters outside of ASCII",
    "{{ ['\u0800'] }}": "letters of such a script",
    "{{ [nothing] }}": "something undefined in a list",
    "{% for m in messages %}{% macro f() %}{% endmacro %}{{ f() }}{% endfor %}": "a macro that is made",
    "{% macro f() %}{{ caller() }}{% endmacro %}{{ f() }}": "a macro that is made in a loop, or has a caller",
    "{{ 0.5 + 1 }}": "arithmetic of other things",
    "{{ {'a': 1}.items() }}": "an object as text",
    "{{ [1] == (1,) }}": "lists of different kinds",
    "{% for a, b, c in [] %}{% endfor %}": "a loop over several names",
}


@pytest.mark.parametrize("source", REFUSED)
def test_another_construct_is_refused_by_its_name(source: str, probe: TextProbe) -> None:
    use(probe, source)
    with pytest.raises(NativeError) as raised:
        probe.render([USER])
    assert raised.value.code == 5
    assert REFUSED[source] in raised.value.message


NESTS = "{{% set ns = namespace(x=['a' * 20], y=['a' * 20]) %}}{{% for i in range(99) %}}{} {{% endfor %}}{}"
DEEPER, TWICE = "{% set ns.x = [ns.x] %}" * 2, "{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (NESTS.format(DEEPER, "{{ ns.x | tojson }}"), "too deep a recursion"),
        (NESTS.format(DEEPER, "{{ ns.x }}"), "too deep a recursion"),
        (NESTS.format(DEEPER * 3, "{% set ns.y = ns.x[:] %}{{ ns.x == ns.y }}"), "too deep a recursion"),
        (NESTS.format(TWICE, "{{ ns.x | tojson }}"), "takes too"),
        (NESTS.format(TWICE, "{{ ns.x }}"), "takes too"),
        (NESTS.format(TWICE, "{{ ns.x == ns.y }}"), "takes too long"),
        ("{% macro f(x) %}{{ f(x + 1) }}{% endmacro %}{{ f(1) }}", "too deep a recursion"),
        ("{% macro f(x, y=f(1)) %}{% endmacro %}{{ f(1) }}", "too deep a recursion"),
        ("{{ 'aaaaaaaaaa' * 999999999 }}", "takes too much memory"),
        ("{{ range(0, 999999999, 2) }}", "the range is too large"),
        ("{{ range(1, 2, 0) }}", "must not be zero"),
    ],
)
def test_work_on_values_is_bounded(source: str, words: str, probe: TextProbe) -> None:
    use(probe, source)
    with pytest.raises(NativeError) as raised:
        probe.render([USER], TOOLS, raw=True)
    assert raised.value.code == 4
    assert words in raised.value.message


def test_numbers_that_do_not_fit_are_refused(probe: TextProbe) -> None:
    use(probe, "{{ tools | tojson }}")
    with pytest.raises(NativeError, match="a whole number has more than 64 bits"):
        probe.render([USER], [{"n": 1 << 64}], raw=True)
