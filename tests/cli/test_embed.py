"""``edgedec embed``: texts of arguments and lines, and vectors as numbers, JSON and a matrix."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from edgedec.embed.encoder import load_encoder
from edgedec.export import export_huggingface
from tests.cli.support import Home, run
from tests.fixtures.tiny_bert import write_bert


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("bert")
    export_huggingface(write_bert(folder / "model", prompts={"query": "why is "}), folder / "bundle")
    return str(folder / "bundle")


def expected(bundle: str, *texts: str) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    return load_encoder(Path(bundle)).embed(texts).vectors


def test_arguments_become_lines_of_numbers(home: Home, bundle: str) -> None:
    found = run(home.real(), "embed", "-m", bundle, "the cat", "a dog")
    rows = np.array([line.split() for line in found.stdout.splitlines()], np.float32)
    np.testing.assert_array_equal(rows, expected(bundle, "the cat", "a dog"))


def test_lines_become_objects(home: Home, bundle: str) -> None:
    found = run(home.real(), "embed", "-m", bundle, "--json", stdin="the cat\r\n\nblue sky")
    lines = [json.loads(line) for line in found.stdout.splitlines()]
    assert [line["text"] for line in lines] == ["the cat", "", "blue sky"]
    vectors = np.array([line["embedding"] for line in lines], np.float32)
    np.testing.assert_array_equal(vectors, expected(bundle, "the cat", "", "blue sky"))


def test_a_matrix_is_there_whole_or_not_at_all(home: Home, bundle: str, tmp_path: Path) -> None:
    out, lines = tmp_path / "x.npy", [f"cat dog {'sky ' * (at % 5)}" for at in range(300)]
    found = run(home.real(), "embed", "-m", bundle, "--out", str(out), stdin="\n".join(lines))
    assert found.exit_code == 0
    assert "300 vectors of 64 numbers" in found.stderr
    np.testing.assert_array_equal(np.load(out), expected(bundle, *lines))
    before = out.read_bytes()
    broken = run(home.real(), "embed", "-m", bundle, "--out", str(out), stdin=b"a cat\n\xff\n")
    assert broken.exit_code != 0
    assert "line 2 of standard input is not UTF-8" in broken.stderr
    assert out.read_bytes() == before
    assert sorted(one.name for one in tmp_path.iterdir()) == ["home", "x.npy"]


def test_a_query_has_the_models_words_in_front(home: Home, bundle: str) -> None:
    asked = run(home.real(), "embed", "-m", bundle, "--as", "query", "the sky").stdout
    assert asked == run(home.real(), "embed", "-m", bundle, "why is the sky").stdout


def test_a_long_text_is_said_to_be_cut(home: Home, bundle: str) -> None:
    found = run(home.real(), "embed", "-m", bundle, "cat " * 100)
    assert "a text was longer than the model's context of 40 tokens and cut" in found.stderr


@pytest.mark.parametrize(("options", "words"), [
    (["--json", "--out", "x.npy", "a"], "--json goes without --out"),
    (["--memory", "1MB", "a"], "is too small for"),
    ([], "there is no text"),
])  # fmt: skip
def test_what_cannot_be_is_one_line(home: Home, bundle: str, options: list[str], words: str) -> None:
    found = run(home.real(), "embed", "-m", bundle, *options, stdin="")
    assert found.exit_code != 0
    assert words in found.stderr
    assert "Traceback" not in found.stderr
