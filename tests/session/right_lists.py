"""A hundred long replies that are right, whose lines are alike; and replies that go round in circles."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import date, timedelta

_ANIMALS = """
lion tiger bear wolf fox deer otter seal whale shark trout salmon eagle hawk owl raven crow robin finch
swan goose duck hen turkey horse donkey mule cow goat sheep pig dog cat mouse rat rabbit hare squirrel beaver
badger mole bat toad frog newt snake lizard turtle crab lobster shrimp snail slug worm ant bee wasp
"""
_COLOURS = "red orange yellow green blue indigo violet black white grey brown pink"
_CITIES = "Oslo Rome Paris Cairo Lima Quito Tokyo Delhi Perth Dakar Accra Tunis Sofia Minsk Riga Kiev Bern"
_DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday"
_MOVES = """
e4 e5 Nf3 Nc6 Bb5 a6 Ba4 Nf6 O-O Be7 Re1 b5 Bb3 d6 c3 O-O h3 Nb8 d4 Nbd7 Nbd2 Bb7 Bc2 Re8 Nf1 Bf8
"""
_PIECE = re.compile(r"[0-9]| ?[A-Za-z]+|\s+| ?[^\sA-Za-z0-9]")


def _of(words: str, number: int) -> str:
    listed = words.split()
    return listed[number % len(listed)]


def _line_forms() -> Iterator[Callable[[int], str]]:
    """Lines by number, 0 and up: each differs from the one before in what it is about."""

    def animal(n: int) -> str:
        return f"{_of(_COLOURS, n // len(_ANIMALS.split()))} {_of(_ANIMALS, n)}"

    def day(n: int) -> date:
        return date(2024, 1, 1) + timedelta(days=n)

    yield lambda n: f"{n + 1}. {animal(n).title()}"
    yield lambda n: f"{n + 1}) The {animal(n)} lives in {_of(_CITIES, n)} and eats once a day."
    yield lambda n: f"- {animal(n)}"
    yield lambda n: f"{n + 1}. **{animal(n).title()}**: an animal of the {_of(_COLOURS, n)} list"
    yield lambda n: f"{n + 1}"
    yield lambda n: f"{n + 1}, {n + 2}, {n + 3},"
    yield lambda n: f"{n // 10 + 1} x {n % 10 + 1} = {(n // 10 + 1) * (n % 10 + 1)}"
    yield lambda n: f"{n + 1} squared is {(n + 1) ** 2}"
    yield lambda n: f"| {n + 1} | {animal(n)} | {n * 7 % 90 + 10} | yes |"
    yield lambda n: f"{n},{animal(n)},{n * 37 % 1000},{day(n)},active"
    yield lambda n: day(n).isoformat()
    yield lambda n: f"{day(n):%A}, {day(n):%B} {day(n).day}, 2024"
    yield lambda n: f"{n + 1}. {_of(_MOVES, 2 * n)} {_of(_MOVES, 2 * n + 1)} {chr(97 + n // 8)}{n % 8 + 1}"
    yield lambda n: f"    assert square({n}) == {n * n}"
    yield lambda n: f'    {{"id": {n}, "name": "{animal(n)}", "role": "user", "active": true}},'
    yield lambda n: f"INSERT INTO animals (id, name, age) VALUES ({n}, '{animal(n)}', {n * 3 % 20});"
    yield lambda n: f"<tr><td>{n + 1}</td><td>{animal(n)}</td><td>{_of(_COLOURS, n)}</td></tr>"
    yield lambda n: f"user{n}@example.com"
    yield lambda n: f"Line {n + 1}"
    yield lambda n: f"192.168.{n // 256}.{n % 256}"
    yield lambda n: f"{n:08b}"
    yield lambda n: "FizzBuzz" if n % 15 == 0 else "Fizz" if n % 3 == 0 else "Buzz" if n % 5 == 0 else str(n)
    yield lambda n: f"Day {n + 1}: run {n % 9 + 1} km, then stretch."
    yield lambda n: f"{n + 1}. {'heads' if (n * n + n // 3) % 7 % 2 else 'tails'}"
    yield lambda n: f"#define REGISTER_{n} 0x{n * 4:04X}"


def right_lists() -> dict[str, str]:
    """Return a hundred replies by name: 25 forms of lines, in four lengths or places."""
    found = {}
    for number, line in enumerate(_line_forms()):
        for start, count in ((0, 120), (40, 200), (100, 160), (7, 400)):
            lines = [line(n) for n in range(start, start + count)]
            found[f"{number} from {start}"] = "Here it is:\n\n" + "\n".join(lines) + "\n"
    return found


def looping() -> dict[str, str]:
    """Return replies that go round in circles by name: as small models wrote them."""
    stanza = "The sea is a siren's song, a siren's song,\n" + 3 * "Aria of the sea, aria of the sea,\n"
    odd = {n: f"So the dog slept at {_of(_CITIES, n)}. " for n in range(20, 400, 45)}
    return {
        "one line, counted": "".join(f"{n}. Shark (Shark)\n" for n in range(1, 400)),
        "days, counted": "".join(f"{n}. {_of(_DAYS, n)}\n" for n in range(1, 400)),
        "bold, counted": "".join(f"- **{n}.** Be kind to the next one.\n" for n in range(1, 300)),
        "a sentence": 200 * "Max was given a big bed with a big bed. ",
        "a stanza": 60 * (stanza + "\n"),
        "nearly a sentence": "".join(odd.get(n, "Max was given a big bed in the shop. ") for n in range(300)),
    }


def tokens_of(text: str) -> tuple[list[int], list[bytes]]:
    """Cut a text as most vocabularies do: words, and single digits and signs; return ids and bytes."""
    ids = dict[str, int]()
    pieces = _PIECE.findall(text)
    assert "".join(pieces) == text
    return [ids.setdefault(piece, len(ids)) for piece in pieces], [piece.encode() for piece in pieces]
