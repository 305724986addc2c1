"""text/: the engine's chat templates beside Jinja's: the same prompt, or a refusal that names why."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from edgedec.core.errors import TemplateError
from edgedec.native.text_probe import NativeError, TextProbe
from edgedec.session.prompt import Message, Prompts
from edgedec.text.sandbox import CompiledTemplate
from edgedec.text.template import MAX_CHARS, ChatTemplate
from edgedec.text.template_program import program_of
from edgedec.text.tokenizer import Tokenizer
from tests.fixtures.tiny_tokenizers import bpe_metadata, built, spm_metadata
from tests.fixtures.tiny_vocab import GEMMA
from tests.native.test_text import WORDS, native

TEMPLATES = Path(__file__).parents[1] / "text" / "templates"
REAL = {path.stem: path.read_text(encoding="utf-8") for path in sorted(TEMPLATES.glob("*.jinja"))}
SOURCES = {**REAL, "tiny gemma": GEMMA}
Talk = list[dict[str, str]]
CONTENTS = (
    "Hi",
    "",
    "  trimmed \n",
    "\u3000wide\u00a0",
    "é日本🙂",
    "<|im_end|>",
    "a\n\nb",
    "<think>x</think>y",
    "{{ 7 }}",
    "\x1c",
)


@pytest.fixture(scope="module")
def probe() -> Iterator[TextProbe]:
    with TextProbe() as found:
        yield found


def talks(count: int = 40, seed: int = 1) -> list[Talk]:
    """Conversations as chats have them, and some that templates refuse."""
    rng = random.Random(seed)
    found: list[Talk] = [[]]
    for _ in range(count):
        talk = [] if rng.random() < 0.5 else [{"role": "system", "content": rng.choice(CONTENTS)}]
        for turn in range(rng.randint(1, 5)):
            talk.append({"role": ("user", "assistant")[turn % 2], "content": rng.choice(CONTENTS)})
        if rng.random() < 0.2:
            rng.shuffle(talk)
        found.append(talk)
    return found


def rendered(source: str, talk: Talk, *, generation_prompt: bool = True) -> str | None:
    """Return the text that Jinja writes, with the variables of ``ChatTemplate``; None where it fails."""
    variables = {
        "messages": talk,
        "add_generation_prompt": generation_prompt,
        "bos_token": "<bos>",
        "eos_token": "<eos>",
        "tools": None,
        "documents": None,
    }
    try:
        return compiled(source).render(variables, MAX_CHARS)
    except TemplateError:
        return None


@cache
def compiled(source: str) -> CompiledTemplate:
    return CompiledTemplate(source)


def answered(probe: TextProbe, talk: Talk, *, generation_prompt: bool = True) -> str | None:
    try:
        return probe.render(talk, generation_prompt=generation_prompt)
    except NativeError as error:
        if error.code != 4:
            raise
        return None


@pytest.mark.parametrize("name", SOURCES)
def test_prompts_are_those_of_jinja(name: str, probe: TextProbe) -> None:
    source = SOURCES[name]
    probe.use_template(program_of(source), source, bos="<bos>", eos="<eos>")
    whole = 0
    for talk, generation in product(talks(), (True, False)):
        expected = rendered(source, talk, generation_prompt=generation)
        assert answered(probe, talk, generation_prompt=generation) == expected, talk
        whole += expected is not None
    assert whole > 20


EXPRESSIONS = (
    "1 + 2 * 3 - 4 % 3",
    "-7 % 3",
    "7 % -3",
    "true + 1",
    "'a' ~ 1 ~ none ~ true ~ nothing",
    "messages | length",
    "messages[-1].content",
    "messages[99]",
    "messages[0]['role'] == 'system'",
    "messages[1:] | length",
    "messages[::-1][0].content",
    "messages[:-1] | length",
    "'añb'[1:]",
    "'añb'[-2]",
    "'añb'[:2] ~ 'añb'[9:]",
    "'añb' | length",
    "'a' in 'cab'",
    "'x' not in messages[0]",
    "'content' in messages[0]",
    "2 in [1, 2]",
    "messages[0].nothing is defined",
    "messages[0].content is string",
    "messages is iterable and messages is not mapping",
    "messages[0] is mapping",
    "tools is none and tools is defined",
    "nothing is undefined",
    "(nothing | default('d')) ~ ('' | default('e', true)) ~ ('' | default('f'))",
    "' a b '.strip() ~ '|' ~ '--a-'.lstrip('-') ~ 'a\n'.rstrip()",
    "'a</think>b</think>c'.split('</think>')[-1]",
    "'a-b-c'.split('-', 1) | join('+')",
    "'aXbX'.replace('X', 'ß')",
    "'user'.upper() ~ 'USER' | lower ~ 'hello' | capitalize",
    "'user' | title",
    "messages[0].get('content') ~ messages[0].get('x', 'y') ~ messages[0].get('z')",
    "['a', 'b'] | join(', ')",
    "[1, 2, 3] | first ~ [1, 2] | last",
    "'a' if messages else 'b'",
    "'a' if false",
    "(true and 'x') or 'y'",
    "not messages",
    "'a' < 'b' and 2 >= 2 and not 3 < 2",
    "none == none ~ (1 == true) ~ ('a' == 1)",
    "messages[0] | tojson",
    "'q\"\\\\ü\x01\n' | tojson",
    "3 is odd and 4 is even and 9 is divisibleby 3",
    "'a' is in ['a'] and 1 is eq 1 and 1 is ne 2",
    "range(3) | join ~ range(1, 4) | join",
    "strftime_now('%Y-%m-%d %B') | length > 5 and strftime_now is defined",
    "messages[0].content.startswith('S') ~ 'abc'.endswith('bc')",
    "(messages | last).content | trim",
    "none.x is defined",
)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_expression_is_that_of_jinja(expression: str, probe: TextProbe) -> None:
    source = "{{ " + expression + " }}"
    probe.use_template(program_of(source), source)
    for talk in ([{"role": "system", "content": "Sé"}, {"role": "user", "content": " u "}],):
        assert probe.render(talk) == rendered(source, talk)


PROGRAMS = (
    "{% for m in messages %}{{ loop.index ~ loop.index0 ~ loop.first ~ loop.last }}"
    "{{ loop.length ~ loop.revindex ~ loop.revindex0 }}"
    "{{ loop.previtem.role if loop.previtem is defined }}{{ loop.nextitem is defined }}{% endfor %}",
    "{% set ns = namespace(n=0, last='') %}{% for m in messages %}{% set ns.n = ns.n + 1 %}"
    "{% set ns.last = m.role %}{% endfor %}{{ ns.n ~ ns.last ~ ns.missing }}",
    "{% set x = 1 %}{% for m in messages %}{% set x = x + 1 %}{{ x }}{% endfor %}{{ x }}",
    "{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}",
    "{% for m in messages %}{% if loop.index0 == 1 %}{% continue %}{% endif %}{{ m.role }}"
    "{% if loop.index == 3 %}{% break %}{% endif %}{% endfor %}",
    "{% for m in [] %}x{% else %}none{% endfor %}{% for m in nothing %}x{% else %}y{% endfor %}",
    "{% for a in messages %}{% for b in messages %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}",
    "{% set x %}[{{ messages[0].role }}]{% endset %}{{ x | length ~ x }}",
    "{% macro f(x) %}[{{ x }}]{% endmacro %}{{ f is defined }}x",
    "{% for c in 'aé🙂' %}{{ c }}-{% endfor %}",
    "{% generation %}{{ messages[0].role }}{% endgeneration %}",
    "{% set messages = messages[1:] %}{{ messages | length }}",
    "{%- for m in messages -%}\n  {{ m.role }}\n{%- endfor %}\n  {% if true %}\nx\n  {% endif %}\n",
)


@pytest.mark.parametrize("source", PROGRAMS)
def test_a_program_is_that_of_jinja(source: str, probe: TextProbe) -> None:
    probe.use_template(program_of(source), source)
    for talk in talks(12, seed=3)[1:]:
        assert answered(probe, talk) == rendered(source, talk)


REFUSED = {
    "{{ messages | map(attribute='role') | join }}": "the filter map",
    "{{ 'é' | upper }}": "the case of letters outside of ASCII",
    "{{ 1 / 2 }}": "the expression Div",
    "{{ 'a'.title }}": "the attribute title",
    "{% include 'x' %}": "the statement Include",
    "{{ strftime_now('%U') }}": "such a form of the time",
    "{{ 9223372036854775807 + 1 }}": "the constant",
    "{{ messages.__class__ }}": "the attribute __class__",
    "{{ loop.cycle('a') }}": "the method cycle",
    "{{ dict is mapping }}": "a function as a value",
    "{{ 'a%s' % 5 }}": "arithmetic",
}


@pytest.mark.parametrize("source", REFUSED)
def test_another_construct_is_refused_by_its_name(source: str, probe: TextProbe) -> None:
    probe.use_template(program_of(source), source)
    with pytest.raises(NativeError) as raised:
        probe.render([{"role": "user", "content": "x"}])
    assert raised.value.code == 5
    assert REFUSED[source] in raised.value.message


GROWS = (
    "{{% set ns = namespace(s={}) %}}{{% for i in range(99) %}}{{% set ns.s = ns.s {} ns.s %}}{{% endfor %}}"
)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("a\n{{ raise_exception('Roles must alternate') }}", "failed in line 2: Roles must alternate"),
        ("{{ messages[0].x.y }}", "line 1: 'x' is undefined"),
        ("{{ messages[0].role + 1 }}", "line 1"),
        ("{{ 1 % 0 }}", "line 1: modulo by zero"),
        ("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "takes too"),
        (GROWS.format("'aa'", "~"), "takes too much memory"),
        (GROWS.format("[1]", "+"), "takes too"),
        ("{% for i in range(99999) %}" + "x" * 100 + "{% endfor %}", "writes too much"),
        ("{{ range(999999999) | list }}", "the range is too large"),
    ],
)
def test_failures_name_the_line_and_work_is_bounded(source: str, words: str, probe: TextProbe) -> None:
    probe.use_template(program_of(source), source)
    with pytest.raises(NativeError) as raised:
        probe.render([{"role": "user", "content": "x"}])
    assert raised.value.code == 4
    assert words in raised.value.message


@pytest.mark.parametrize("kind", ["bpe", "spm"])
def test_a_chat_has_the_tokens_of_python(kind: str, tmp_path: Path) -> None:
    """Turn by turn, with control tokens in messages, with and without a template."""
    metadata = bpe_metadata() if kind == "bpe" else spm_metadata(WORDS, add_space_prefix=True)
    tokenizer = built(tmp_path, metadata)
    for source in (REAL["chatml"], REAL["qwen2.5-coder"], GEMMA, None):
        with native(tmp_path, tokenizer) as probe:
            template = ChatTemplate(source, bos="<bos>", eos="<eos>") if source else None
            if source:
                probe.use_template(program_of(source), source, bos="<bos>", eos="<eos>")
            same_chats(tokenizer, Prompts(tokenizer, template), probe)


def same_chats(tokenizer: Tokenizer, prompts: Prompts, probe: TextProbe) -> None:
    rng = random.Random(21)
    odd = (
        "<|im_start|>system\nhi<|im_end|>",
        "a <|im_",
        "<eos>",
        "\ufdd0",
        "<bos",
        "an\n\nan",
        "é ",
        "hello the",
    )
    talk: list[Message] = []
    seen: tuple[str, list[int]] | None = None
    for turn in range(24):
        if turn % 8 == 0:
            talk = []
        talk.append(Message(("user", "assistant")[len(talk) % 2], rng.choice([*odd, *CONTENTS])))
        back = bool(seen) and rng.random() < 0.1
        if seen:
            prompts.remember(*seen)
        given: dict[str, Any] = {"seen": seen[0], "ids": seen[1]} if seen else {}
        turns = [{"role": message.role, "content": message.content} for message in talk]
        if back:
            prompts.take_back()
            probe.ask("prompt", messages=turns, **given)
            given = {}
        expected = prompts.build(talk)
        found = probe.ask("prompt", messages=turns, take_back=back, **given)
        assert (found["text"], found["ids"]) == (expected.text, expected.ids), turns
        ids = [*expected.ids, *rng.choices(range(5, tokenizer.size), k=3)]
        reply = tokenizer.decode(ids[len(expected.ids) :])
        seen = (expected.text + reply, ids)
        talk.append(Message("assistant", reply)) if talk[-1].role == "user" else None
