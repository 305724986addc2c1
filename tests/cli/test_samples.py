"""``edgedec batch --samples``, on a model of random weights."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgedec.session.conversations import Conversations
from edgedec.session.tasks import Answer
from tests.cli.support import Home, assert_one_line, run
from tests.cli.test_batch import answer, generate, objects

PROMPT = "The cat sat on the mat."
ASKED = ("--raw", PROMPT, "--temperature", "0.9", "--seed", "5", "--draft", "lookup")


def test_all_samples_are_those_of_their_seeds(home: Home, bundle: Path) -> None:
    [several] = objects(answer(home, bundle, *ASKED, "--samples", "5", "--batch", "2", "--json"))
    assert [one["seed"] for one in several["samples"]] == [5, 6, 7, 8, 9]
    for one in several["samples"]:
        [alone] = objects(generate(home, bundle, *ASKED, "--seed", str(one["seed"]), "--json"))
        assert (one["text"], one["tokens"]) == (alone["text"], alone["tokens"])
        assert one["finish_reason"] == alone["finish_reason"]
        assert one["stats"]["sampling"] == alone["stats"]["sampling"]
    assert "chosen" not in several
    assert several["stats"]["batch"]["completion_tokens"] == sum(
        len(one["tokens"]) for one in several["samples"]
    )
    shown = answer(home, bundle, *ASKED, "--samples", "2")
    assert shown.stdout.startswith("--- sample 1, seed 5:\n")
    assert "\n--- sample 2, seed 6:\n" in shown.stdout
    cut = [str(at + 1) for at in (0, 1) if several["samples"][at]["finish_reason"] == "length"]
    assert (
        f"note: --max-tokens cut the replies to sample{'s' * (len(cut) > 1)} {', '.join(cut)};"
        in shown.stderr
    )


def test_the_best_has_the_highest_mean_log_probability(home: Home, bundle: Path) -> None:
    asked = (*ASKED, "--samples", "4", "--choose", "best")
    [several] = objects(answer(home, bundle, *asked, "--json"))
    means = [one["mean_logprob"] for one in several["samples"]]
    assert several["chosen"] == means.index(max(means))
    best = several["samples"][several["chosen"]]
    shown = answer(home, bundle, *asked)
    assert shown.stdout == best["text"] + "\n"
    assert f"note: sample {several['chosen'] + 1} of 4, seed {best['seed']}\n" in shown.stderr


def test_a_vote_shows_the_first_sample_with_the_most_frequent_answer(home: Home, bundle: Path) -> None:
    asked = (*ASKED, "--samples", "4", "--choose", "vote=(?s)^.")
    [every] = objects(answer(home, bundle, *ASKED, "--samples", "4", "--json"))
    answers = [one["text"][:1] for one in every["samples"]]
    expected = answers.index(max(filter(None, answers), key=answers.count))
    [several] = objects(answer(home, bundle, *asked, "--json"))
    assert (several["chosen"], several["samples"][expected]["answer"]) == (expected, answers[expected])
    assert several["samples"][expected]["tokens"] == every["samples"][expected]["tokens"]
    assert f"note: sample {expected + 1} of 4, seed {5 + expected}; " in answer(home, bundle, *asked).stderr


@pytest.mark.parametrize("batch", ["1", "2", "4"])
def test_a_vote_ends_when_no_sample_can_change_it(home: Home, bundle: Path, batch: str) -> None:
    """All answer the same, so the first four of seven settle it."""
    asked = (*ASKED, "--context", "512", "--max-tokens", "200", "--samples", "7", "--batch", batch)
    [several] = objects(answer(home, bundle, *asked, "--choose", "vote=^", "--json"))
    ended = sum(one["finish_reason"] != "interrupted" for one in several["samples"])
    assert several["chosen"] == 0
    assert 4 <= ended < 7
    stats = several["stats"]
    assert (stats["samples_ended"], stats["samples_not_needed"]) == (ended, 7 - ended)
    assert stats["batch"]["completion_tokens"] == sum(len(one["tokens"]) for one in several["samples"])
    assert " more could not change that" in answer(home, bundle, *asked, "--choose", "vote=^").stderr


def test_samples_without_an_answer_are_shown_before_the_error(home: Home, bundle: Path) -> None:
    result = answer(home, bundle, *ASKED, "--samples", "2", "--choose", "vote=QQQ")
    assert "--- sample 2, seed 6:" in result.stdout
    assert result.stderr.splitlines()[-1].startswith("error: none of 2 samples has a match of 'QQQ'")
    assert result.exit_code == 1


def test_the_first_to_end_interrupts_the_others(home: Home, bundle: Path) -> None:
    ends = ("--sampling", "frequency-penalty=2", "--max-tokens", "400", "--context", "512")
    [several] = objects(answer(home, bundle, *ASKED, *ends, "--samples", "3", "--choose", "first", "--json"))
    chosen = several["samples"][several["chosen"]]
    assert chosen["finish_reason"] == "stop"
    cut = answer(home, bundle, *ASKED, "--max-tokens", "2", "--samples", "2", "--choose", "first")
    assert cut.exit_code == 0
    assert "note: sample " in cut.stderr


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("-p", "x"), "option: -p (the prompt is an argument, or comes from standard input)"),
        (("--choose", "best"), "--choose is for --samples (say how many samples to choose from)"),
        (("--samples", "2", "--choose", "worst"), "--choose cannot be 'worst' (it is best, first, vote"),
        (("--samples", "2", "--choose", "best=1"), "--choose cannot be 'best=1'"),
        (("--samples", "2", "--choose", "vote="), "--choose cannot be 'vote='"),
        (("--samples", "2", "--choose", "vote=("), "'(' is no regular expression:"),
    ],
)
def test_contradictions_are_one_line_before_a_model_is_opened(
    home: Home, options: tuple[str, ...], line: str
) -> None:
    assert_one_line(run(home.services(), "batch", "Hi", *options), 2, line)
    assert home.opened == []


def test_a_model_of_one_sequence_says_so(home: Home) -> None:
    services = home.services(home.parrot("Hello."))
    result = run(services, "batch", "Hi", "--samples", "2")
    assert result.exit_code != 0
    assert "one" in result.stderr.splitlines()[-1]
    assert json.dumps("Traceback") not in result.stderr


def test_samples_of_a_form_have_it_or_say_so(home: Home, bundle: Path) -> None:
    """Those that a limit cuts have an error, and do not count where others are whole."""
    form = ("--form", "regex:(yes|no|[a-z]{200})")
    result = answer(home, bundle, *ASKED, *form, "--samples", "6", "--choose", "vote=.+", "--json")
    found = json.loads(result.stdout)
    whole = [one for one in found["samples"] if "error" not in one]
    assert len(found["samples"]) == 6
    assert all(one["text"] in ("yes", "no") for one in whole)
    chosen = found["samples"][found["chosen"]]
    assert (result.exit_code == 0) == ("error" not in chosen)
    assert not whole or chosen in whole


@pytest.mark.parametrize("choose", [(), ("--choose", "best"), ("--choose", "first"), ("--choose", "vote")])
def test_an_interruption_shows_what_was_said(
    home: Home, bundle: Path, monkeypatch: pytest.MonkeyPatch, choose: tuple[str, ...]
) -> None:
    made = Conversations.samples

    def interrupted(several: Conversations, *given: Any, **how: Any) -> Iterator[Answer]:
        for number, one in enumerate(made(several, *given, **how)):
            several.interrupt()
            if one.reply and (number or choose[1:] == ("first",)):
                one.reply.finish_reason = "interrupted"
            yield one

    monkeypatch.setattr(Conversations, "samples", interrupted)
    result = answer(home, bundle, *ASKED, "--samples", "40", "--batch", "2", *choose)
    assert result.exit_code == 130
    assert "--- sample 1, seed 5:\n" in result.stdout
    assert "seed 44" not in result.stdout
