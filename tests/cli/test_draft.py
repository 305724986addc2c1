"""``edgedec draft``, on a model of random weights."""

from __future__ import annotations

import json
import re
from pathlib import Path

from edgedec.bundle.manifest import Manifest
from edgedec.training.rollouts import RolloutStore, held_out
from tests.cli.support import Home, assert_one_line, ran, run

TEXTS = ["Once upon a time", "one two one two", "The cat sat", "Hello", "x y z"]


def test_the_command_keeps_replies_and_goes_on_where_it_stopped(
    home: Home, bundle: Path, tmp_path: Path
) -> None:
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("\n".join(TEXTS[:3]), encoding="utf-8")

    def rollouts(*options: str) -> dict[str, object]:
        args = ("--prompts", str(prompts), "--max-tokens", "8", "--json", *options)
        result = ran(home.real(), "draft", "rollouts", "-m", str(bundle), *args)
        return json.loads(result.stdout)  # type: ignore[no-any-return]

    first = rollouts("--greedy")
    assert (first["replies"], first["added_replies"]) == (3, 3)
    prompts.write_text("\n".join(TEXTS), encoding="utf-8")
    again = rollouts("--greedy")
    assert (again["replies"], again["added_replies"]) == (5, 2)
    assert rollouts()["added_replies"] == 0  # this model's preset is greedy
    folder = Path(str(again["folder"]))
    assert folder.parent == home.path / "rollouts"
    assert sum(len(one.reply) for one in RolloutStore(folder)) == again["tokens"]


def test_tables_are_made_of_the_replies_and_listed(home: Home, bundle: Path, tmp_path: Path) -> None:
    refused = run(home.real(), "draft", "tables", "-m", str(bundle))
    assert_one_line(refused, 3, "no replies of", "first reply is drafted", "run `edgedec draft rollouts -m")

    prompts = tmp_path / "prompts.txt"
    texts = [f"Count to {number}" for number in range(40)]
    prompts.write_text("\n".join(texts), encoding="utf-8")
    assert any(map(held_out, texts))
    given = ("--prompts", str(prompts), "--max-tokens", "12", "--greedy")
    ran(home.real(), "draft", "rollouts", "-m", str(bundle), *given)
    result = ran(home.real(), "draft", "tables", "-m", str(bundle), "--json")
    made = json.loads(result.stdout)
    assert made["kept"]
    assert made["facts"]["replies"] == sum(not held_out(text) for text in texts)

    told = run(home.real(), "draft", "list", "-m", str(bundle)).stdout.splitlines()
    assert told[0] == Manifest.load(bundle).name
    assert "what the model says most, so that its first reply is drafted too" in told[1]
    assert told[1].endswith("B, made here")
    assert re.fullmatch(r" +\d\.\d\d tokens a pass where it was \d\.\d\d without", told[2])
    assert len(told) == 4
    listed = run(home.real(), "draft", "list", "-m", str(bundle), "--json")
    (one,) = json.loads(listed.stdout)["drafters"]
    assert (one["kind"], one["shipped"], one["facts"]) == ("tables", False, made["facts"])
    (Path(one["path"]) / "recycling.table").write_bytes(b"damaged")
    shown = ran(home.real(), "draft", "list", "-m", str(bundle))
    assert "not usable: recycling.table of the drafter has 7 bytes" in shown.stdout


def test_a_model_without_drafters_has_an_empty_list(home: Home, bundle: Path) -> None:
    assert "No drafter belongs to" in run(home.real(), "draft", "list", "-m", str(bundle)).stdout
    every = run(home.real(), "draft", "list").stdout
    assert every == "No drafter belongs to an installed model. `edgedec draft` makes some.\n"
    assert_one_line(run(home.real(), "draft", "list", "-m", "smollm2-135m"), 3, "not installed")


def test_prompts_that_cannot_be_read_are_one_line(home: Home, bundle: Path, tmp_path: Path) -> None:
    result = run(home.real(), "draft", "rollouts", "-m", str(bundle), "--prompts", str(tmp_path / "absent"))
    assert_one_line(result, 3, "no such file")
