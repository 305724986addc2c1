"""Forty prompts as people type them, with a check of the answer where there is one right answer."""

from __future__ import annotations

import re

from edgedec.core.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class EverydayPrompt:
    """A prompt; patterns that a right reply all has, and one that it has not. Case does not count.

    Without ``right`` there is no one answer: the reply counts by its end alone.
    """

    kind: str
    text: str
    right: tuple[str, ...] = ()
    wrong: str | None = None

    def is_right(self, reply: str) -> bool | None:
        """Whether a reply is right; None where there is no one answer."""
        if not self.right:
            return None
        found = all(re.search(pattern, reply, re.IGNORECASE | re.DOTALL) for pattern in self.right)
        return found and not (self.wrong and re.search(self.wrong, reply, re.IGNORECASE | re.DOTALL))


def _numbered(count: int) -> tuple[tuple[str, ...], str]:
    """Return ``right`` and ``wrong`` for lines that are numbered up to ``count`` and no further."""
    lines = tuple(rf"(^|\n)\W*{number}[.):]" for number in range(1, count + 1))
    return lines, rf"\n\W*{count + 1}[.):]"


_P = EverydayPrompt
EVERYDAY_PROMPTS = (
    _P("fact", "What is the capital of Australia?", ("canberra",)),
    _P("fact", "Who wrote Romeo and Juliet?", ("shakespeare",)),
    _P("fact", "How many days are in a leap year?", (r"\b366\b",)),
    _P("fact", "What is the chemical symbol of gold?", (r"\bAu\b",)),
    _P("fact", "Which planet is the largest in the solar system?", ("jupiter",)),
    _P("fact", "In which year did World War II end?", (r"\b1945\b",)),
    _P("fact", "What is the boiling point of water at sea level in Celsius?", (r"\b100\b",)),
    _P("fact", "What language do people speak in Brazil?", ("portuguese",)),
    _P("fact", "Is a whale a fish or a mammal?", ("mammal",)),
    _P("fact", "What is the opposite of 'expensive'?", (r"cheap|inexpensive|affordable|low.cost",)),
    _P("sum", "What is 17 + 26?", (r"\b43\b",)),
    _P("sum", "What is 12 times 11?", (r"\b132\b",)),
    _P("sum", "I buy 3 books at 8 dollars each and pay with a 50 dollar note. How much change do I get?",
       (r"\b26\b",)),
    _P("sum", "A train leaves at 9:40 and arrives at 11:10. How many minutes does it take?",
       (r"\b90\b|hour and (30|thirty)|1\.5 hours",)),
    _P("sum", "What is 15% of 200?", (r"\b30\b",)),
    _P("sum", "Sort these numbers from small to large: 42, 7, 19, 3.", (r"3\W+7\W+19\W+42",)),
    _P("list", "Give me a numbered list of ten animals.", *_numbered(10)),
    _P("list", "List five fruits, numbered.", *_numbered(5)),
    _P("list", "List the days of the week.",
       ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")),
    _P("list", "List the even numbers from 2 to 20.", (r"\b2\b.*\b10\b.*\b18\b.*\b20\b",), r"\b2[2-9]\b"),
    _P("list", "Write a numbered list of seven ideas for a rainy day.", *_numbered(7)),
    _P("list", "Give me a packing list for a weekend trip."),
    _P("list", "Name the months of the year in order.", ("january.*june.*december",)),
    _P("list", "Make a table in Markdown of three countries and their capitals.",
       (r"\|\W*-{3}", r"\|[^\n|]*\w[^\n|]*\|[^\n|]*\w[^\n|]*\|")),
    _P("code", "Write a Python function that returns the sum of a list of numbers.",
       (r"def \w+\(", r"sum\(|\+=|\+ ")),
    _P("code", "Write a Python function is_even(n).", (r"def is_even\(\w+", r"% ?2 ?== ?0|& ?1")),
    _P("code", "How do I reverse a string in Python?", (r"\[::-1\]|reversed\(",)),
    _P("code", "Write an SQL query that counts the rows of the table users.",
       (r"select\s+count\(.*from\s+[`\"]?users",)),
    _P("code", "Which git command shows the history of commits?", (r"git log",)),
    _P("code", "Write a JSON object with a name and an age.", (r'\{\s*"name":.*"age":.*\}',)),
    _P("text", "Translate to French: Good morning, my friend.", (r"bonjour", r"\bami\b")),
    _P("text", "Translate to Spanish: The house is red.", (r"\bcasa\b", r"\broja\b")),
    _P("text", "Correct the spelling: I recieved teh letter yesterday.", (r"\breceived the letter",)),
    _P("text", "Put into the past tense: She walks to school.", (r"she walked to school",)),
    _P("text", "Summarize in one sentence: The shop opens at nine. It closes at five, and on Sundays it does "
       "not open at all. Many people wish that it would open later.", (r"\bshop\b",)),
    _P("text", "Is this review positive or negative? 'The food was cold and the waiter was rude.'",
       ("negative",), r"\bpositive\b[^\n]*$"),
    _P("open", "Write a short poem about the sea."),
    _P("open", "Explain to a child why the sky is blue.", ("scatter|light",)),
    _P("open", "Write a polite email that asks for a day off."),
    _P("open", "Tell me a short story about a dog."),
)  # fmt: skip
