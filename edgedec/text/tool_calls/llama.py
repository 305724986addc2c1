"""Llama 3.1 and 3.2: a reply that is ``{"name": ..., "parameters": {...}}``, perhaps behind <|python_tag|>.

Several calls stand in a row, with ``;`` between them. A reply that is some other JSON object is text: the
name of a call must be that of a tool. Behind the tag, ``NAME.call(KEY="VALUE")`` is a call too.
"""

from __future__ import annotations

import json

from edgedec.text.tool_calls.family import Family, Schemas, attempt
from edgedec.text.tool_calls.json_calls import call_object
from edgedec.text.tool_calls.python_calls import call_of, give
from edgedec.text.tool_calls.scanner import NoCallError, Scanner, Wait

TAG = "<|python_tag|>"
_MOST_BUILT_IN = 10_000


def _objects(scanner: Scanner, schemas: Schemas) -> Wait:
    yield from call_object(scanner, schemas.__contains__)
    while True:
        yield from scanner.space()
        yield from scanner.next_is(";")
        yield from scanner.space()
        if not scanner.text.startswith("{"):
            return
        scanner.hold()
        yield from call_object(scanner, schemas.__contains__)


def _tagged(scanner: Scanner, schemas: Schemas) -> Wait:
    yield from scanner.space()
    if scanner.text.startswith("{"):
        yield from _objects(scanner, schemas)
        return
    while (yield from scanner.more()):
        if len(scanner.text) > _MOST_BUILT_IN:
            raise NoCallError
    name, arguments = call_of(scanner.take(len(scanner.text)))
    give(scanner, name.removesuffix(".call"), arguments)


def _parser(scanner: Scanner, schemas: Schemas) -> Wait:
    scanner.hold()
    yield from scanner.space()
    if scanner.text.startswith("{"):
        yield from attempt(scanner, _objects(scanner, schemas))
    else:
        scanner.release()
    while (yield from scanner.content_until(TAG)) is not None:
        yield from attempt(scanner, _tagged(scanner, schemas))


LLAMA = Family(
    "llama",
    lambda template: TAG in template or '"parameters": dictionary of argument name' in template,
    _parser,
    (TAG,),
    lambda name: (f'{{"name": {json.dumps(name, ensure_ascii=False)}, "parameters": ', "}"),
)
