"""Small programming problems with tests, in the manner of HumanEval (Chen et al. 2021)."""

from __future__ import annotations

from edgedec.core.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class CodeProblem:
    """A task in words, and statements that hold for a right solution."""

    key: str
    text: str
    tests: tuple[str, ...]

    @property
    def prompt(self) -> str:
        """The user's turn."""
        return f"Write a Python function `{self.key}` that {self.text} Answer with the code only."


CODE_PROBLEMS = (
    CodeProblem(
        "is_leap_year(year)",
        "tells whether a year is a leap year of the Gregorian calendar.",
        ("is_leap_year(2000)", "is_leap_year(2024)", "not is_leap_year(1900)", "not is_leap_year(2023)"),
    ),
    CodeProblem(
        "count_vowels(text)",
        "counts the vowels a, e, i, o, u in a text, in upper case or lower case.",
        ("count_vowels('Education') == 5", "count_vowels('') == 0", "count_vowels('xyz AE') == 2"),
    ),
    CodeProblem(
        "is_prime(n)",
        "tells whether an integer is a prime number.",
        ("is_prime(2)", "is_prime(97)", "not is_prime(1)", "not is_prime(0)", "not is_prime(91)"),
    ),
    CodeProblem(
        "gcd(a, b)",
        "returns the greatest common divisor of two positive integers.",
        ("gcd(12, 18) == 6", "gcd(7, 5) == 1", "gcd(100, 10) == 10"),
    ),
    CodeProblem(
        "reverse_words(text)",
        "reverses the order of the words of a text, which single spaces separate.",
        ("reverse_words('one two three') == 'three two one'", "reverse_words('alone') == 'alone'"),
    ),
    CodeProblem(
        "is_palindrome(text)",
        "tells whether a text reads the same backwards, ignoring case and all that is no letter or digit.",
        ("is_palindrome('A man, a plan, a canal: Panama')", "not is_palindrome('abca')", "is_palindrome('')"),
    ),
    CodeProblem(
        "flatten(items)",
        "returns the elements of a list of lists in one list, one level deep.",
        ("flatten([[1, 2], [], [3]]) == [1, 2, 3]", "flatten([]) == []", "flatten([[[1]]]) == [[1]]"),
    ),
    CodeProblem(
        "second_largest(numbers)",
        "returns the second largest of the different values in a list, or None if there is none.",
        ("second_largest([3, 1, 4, 4]) == 3", "second_largest([5, 5]) is None", "second_largest([]) is None"),
    ),
    CodeProblem(
        "fibonacci(n)",
        "returns a list of the first n Fibonacci numbers, which begin with 0 and 1.",
        ("fibonacci(7) == [0, 1, 1, 2, 3, 5, 8]", "fibonacci(0) == []", "fibonacci(1) == [0]"),
    ),
    CodeProblem(
        "char_counts(text)",
        "returns a dictionary that has the number of occurrences of each character of a text.",
        ("char_counts('abca') == {'a': 2, 'b': 1, 'c': 1}", "char_counts('') == {}"),
    ),
    CodeProblem(
        "celsius_to_fahrenheit(degrees)",
        "turns a temperature in degrees Celsius into degrees Fahrenheit.",
        (
            "celsius_to_fahrenheit(0) == 32",
            "celsius_to_fahrenheit(100) == 212",
            "celsius_to_fahrenheit(-40) == -40",
        ),
    ),
    CodeProblem(
        "without_duplicates(items)",
        "returns a list without repeated elements, in the order of their first occurrence.",
        ("without_duplicates([3, 1, 3, 2, 1]) == [3, 1, 2]", "without_duplicates([]) == []"),
    ),
    CodeProblem(
        "binary_search(items, wanted)",
        "returns the index of a value in a sorted list without duplicates, or -1 if it is not there.",
        (
            "binary_search([1, 3, 5, 7], 5) == 2",
            "binary_search([1, 3], 4) == -1",
            "binary_search([], 1) == -1",
        ),
    ),
    CodeProblem(
        "balanced(text)",
        "tells whether the brackets (), [] and {} of a text are balanced and properly nested.",
        ("balanced('a(b[c]{d})')", "not balanced('(]')", "not balanced('(')", "balanced('')"),
    ),
    CodeProblem(
        "roman(n)",
        "returns an integer from 1 to 3999 as a Roman numeral.",
        ("roman(4) == 'IV'", "roman(9) == 'IX'", "roman(1994) == 'MCMXCIV'", "roman(58) == 'LVIII'"),
    ),
    CodeProblem(
        "rotate(items, k)",
        "returns a list rotated to the right by k places, where k may be larger than its length.",
        (
            "rotate([1, 2, 3, 4], 1) == [4, 1, 2, 3]",
            "rotate([1, 2, 3], 5) == [2, 3, 1]",
            "rotate([], 3) == []",
        ),
    ),
    CodeProblem(
        "digit_sum(n)",
        "returns the sum of the decimal digits of an integer, which may be negative.",
        ("digit_sum(123) == 6", "digit_sum(-45) == 9", "digit_sum(0) == 0"),
    ),
    CodeProblem(
        "transpose(matrix)",
        "returns the transpose of a matrix that is a list of rows of equal length.",
        ("transpose([[1, 2, 3], [4, 5, 6]]) == [[1, 4], [2, 5], [3, 6]]", "transpose([[7]]) == [[7]]"),
    ),
    CodeProblem(
        "run_lengths(text)",
        "returns a list of pairs (character, length), one for each run of equal characters of a text.",
        ("run_lengths('aaab') == [('a', 3), ('b', 1)]", "run_lengths('') == []"),
    ),
    CodeProblem(
        "merge_sorted(first, second)",
        "merges two sorted lists into one sorted list.",
        ("merge_sorted([1, 4], [2, 3, 5]) == [1, 2, 3, 4, 5]", "merge_sorted([], [1]) == [1]"),
    ),
)
