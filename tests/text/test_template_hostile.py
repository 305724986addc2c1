"""Hostile chat templates end soon, with an error that names the line, and in little memory."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.fixtures.nightly import every

MOST_S = 2.0
MOST_BYTES = 80 << 20

_NESTED = "{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(60) %}"
_NESTED += "{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}\n\n"

LARGE = {
    "padded items joined": "{{ range(100000)|map('string')|map('center',1000000)|join|length }}",
    "padded items listed": "{{ range(100000)|map('string')|map('center',1000000)|list|length }}",
    "dictionaries that hold each other": (
        "{% set a = namespace(x={}) %}{% for i in range(9000) %}\n"
        "{% set a.x = dict(p=a.x, q='x'*900000 ~ i) %}{% endfor %}"
    ),
    "a block that doubles": "{% set x %}aaaaaaaaaaaaaaaa{% endset %}"
    + "{% set x %}{{ x }}{{ x }}{% endset %}" * 60,
    "a list of slices": "{% set x = 'a'*1000000 %}{{ [" + "x[1:]," * 500 + "]|length }}",
    "a list of wide characters": "{{ [" + "'\U0001f600'*900000," * 500 + "]|length }}",
    "padded bytes": "{{ 'x'.encode().ljust(9999999999)|length }}",
    "a number of many bytes": "{{ (1).to_bytes(9999999999, 'big')|length }}",
    "a table of replacements": "{{ ('a'*900000).translate({97: 'b'*900000})|length }}",
    "tabs of any width": "{{ ('\\t'*900).expandtabs(900000)|length }}",
    "line ends of any length": "{{ ('a '*400000)|wordwrap(1, wrapstring='x'*900000) }}",
    "columns": "{{ [1]|slice(900000)|list|length }}" * 50,
}
SLOW = {
    "a sort in a loop": "{% for i in range(90000) %}\n{% set x = range(100000)|sort %}{% endfor %}",
    "a search in a loop": "{% for i in range(90000) %}{% if 'x' in range(100000) %}{% endif %}{% endfor %}",
    "a filter in a loop": (
        "{% for i in range(90000) %}{% set x = range(100000)|select('odd')|list|length %}{% endfor %}"
    ),
    "the text of a list of 2^60": _NESTED + "{{ ns.x|string|length }}",
    "two lists of 2^60 compared": _NESTED + "{{ ns.x == ns.y }}",
    "JSON of a list of 2^60": _NESTED + "{{ ns.x|tojson|length }}",
    "a key of 2^60": _NESTED.replace("[ns.x, ns.x]", "(ns.x, ns.x)").replace("x=[1]", "x=(1,)")
    + "{{ {ns.x: 1} }}",
    "filters on filters": (
        "{% set ns = namespace(x=range(9)) %}{% for i in range(99999) %}"
        "{% set ns.x = ns.x|map('string') %}{% endfor %}{{ ns.x|list }}"
    ),
    "loops in loops": "{% for i in range(99) %}" * 15 + "{% endfor %}" * 15,
    "lines wrapped in a loop": "{% for i in range(900) %}{{ ('a '*400000)|wordwrap(1)|length }}{% endfor %}",
}
SOURCES = {
    "long sums": "{{ 1" + "+1" * 200_000 + " }}",
    "many outputs": "{{ x }}" * 140_000,
    "deep brackets": "{{ " + "(" * 90_000 + "1" + ")" * 90_000 + " }}",
    "deep conditions": "{% if 1 %}" * 2000 + "{% endif %}" * 2000,
}

_RENDER = """
import gc, json, resource, sys
from edgedec.core.errors import TemplateError
from edgedec.system.memory import peak_rss_bytes
from edgedec.text.template import ChatTemplate
template = ChatTemplate(json.load(sys.stdin), bos="<s>", eos="</s>")
try:
    template.render([{"role": "user", "content": "Hi"}])
except TemplateError as error:
    print(json.dumps(str(error)))
del template
gc.collect()
unit = 1 if sys.platform == "darwin" else 1024
children = resource.getrusage(resource.RUSAGE_CHILDREN)
print(children.ru_utime + children.ru_stime, peak_rss_bytes() + children.ru_maxrss * unit)
"""


def outcome(source: str) -> str:
    """Render in a new process, check its processor time and memory, and return the error."""
    command = [sys.executable, "-c", _RENDER]
    done = subprocess.run(command, input=json.dumps(source), capture_output=True, text=True, check=True)
    answer, taken = done.stdout.splitlines()
    seconds, peak = taken.split()
    assert float(seconds) < MOST_S
    assert int(peak) < MOST_BYTES
    error: str = json.loads(answer)
    return error


@pytest.mark.parametrize("name", every(2, [*LARGE, *SLOW]))
def test_a_hostile_rendering_ends(name: str) -> None:
    source = (LARGE | SLOW)[name]
    error = outcome(source)
    # Where no memory is left for the traceback of a MemoryError, nobody knows the line.
    assert "failed in line" in error or "failed: it takes too much memory" in error
    if _NESTED in source:
        assert "line 3" in error


@pytest.mark.parametrize("name", SOURCES)
def test_a_source_that_is_hard_to_compile_is_refused(name: str) -> None:
    assert "the chat template is broken" in outcome(SOURCES[name])
