"""Easy questions with one number for an answer, for models that are too small for GSM8K."""

from __future__ import annotations

from edgedec.bench.studies.quality import MathProblem

ENDING = "End with the number."
"""Follows every question, since the last number of a reply counts."""
NUMBER_QUESTIONS = (
    ("How many days are in a week?", "7"),
    ("How many legs does a spider have?", "8"),
    ("How many months are in a year?", "12"),
    ("What is 7 plus 5?", "12"),
    ("What is 9 minus 4?", "5"),
    ("What is 6 times 3?", "18"),
    ("How many minutes are in an hour?", "60"),
    ("How many hours are in a day?", "24"),
    ("How many sides does a triangle have?", "3"),
    ("How many sides does a hexagon have?", "6"),
    ("How many continents are there on Earth?", "7"),
    ("How many planets are in the solar system?", "8"),
    ("How many letters are in the English alphabet?", "26"),
    ("How many wheels does a bicycle have?", "2"),
    ("How many wheels does a car have?", "4"),
    ("What is 10 plus 20?", "30"),
    ("What is 100 divided by 10?", "10"),
    ("What is half of 50?", "25"),
    ("How many seconds are in a minute?", "60"),
    ("How many legs does a dog have?", "4"),
    ("How many cents are in a dollar?", "100"),
    ("How many centimetres are in a metre?", "100"),
    ("How many grams are in a kilogram?", "1000"),
    ("How many strings does a violin have?", "4"),
    ("How many players of one team are on the field in soccer?", "11"),
    ("In which year did World War II end?", "1945"),
    ("In which year did the first person walk on the Moon?", "1969"),
    ("In which year did Columbus first reach America?", "1492"),
    ("At how many degrees Celsius does water boil?", "100"),
    ("At how many degrees Celsius does water freeze?", "0"),
    ("What is 2 to the power of 3?", "8"),
    ("What is the square root of 49?", "7"),
    ("How many eggs are in a dozen?", "12"),
    ("How many states does the United States have?", "50"),
    ("How many fingers are on one hand?", "5"),
    ("How many sides does a square have?", "4"),
    ("How many colors are in a rainbow?", "7"),
    ("What is 15 minus 8?", "7"),
    ("What is 8 plus 9?", "17"),
    ("How many years are in a century?", "100"),
)
"""Pairs of question and right answer."""


def easy_problems(count: int | None = None) -> list[MathProblem]:
    """Return the first ``count`` questions, or all, each with its ending."""
    return [
        MathProblem(str(number), f"{text} {ENDING}", answer)
        for number, (text, answer) in enumerate(NUMBER_QUESTIONS[:count], 1)
    ]
