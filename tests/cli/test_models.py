"""pull, list, rm and export."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgedec.cli.seams import Seams
from edgedec.core.manifest import Manifest
from edgedec.models import RECIPES
from tests.cli.support import Home, assert_one_line, run
from tests.fixtures.tiny_gguf import write_tiny
from tests.fixtures.tiny_huggingface import write_huggingface


def test_list_of_an_empty_store_shows_what_can_be_pulled(home: Home) -> None:
    lines = run(home.seams(), "list").stdout.splitlines()
    assert lines[:2] == ["No model is installed yet.", "Can be pulled:"]
    assert [line.split()[0] for line in lines[2:]] == list(RECIPES)
    assert "98.4 MB" in lines[2]
    for line, recipe in zip(lines[2:], RECIPES.values(), strict=True):
        assert line.endswith(f"{recipe.title}; licence: {recipe.licence.name}")


def test_list_of_an_installed_model(home: Home) -> None:
    home.install("gemma3-270m", size=2500)
    lines = run(home.seams(), "list").stdout.splitlines()
    assert lines[0] == f"Installed in {home.path}:"
    assert lines[1].split()[:3] == ["gemma3-270m", "2.5", "kB"]
    assert lines[1].endswith("licence: Gemma Terms of Use")
    assert all("gemma3-270m" not in line for line in lines[2:])


def test_list_for_machines(home: Home) -> None:
    bundle = home.install("gemma3-270m", size=2500)
    document = json.loads(run(home.seams(), "list", "--json").stdout)
    assert document["home"] == str(home.path)
    assert document["installed"] == [
        {"name": "gemma3-270m", "path": str(bundle), "bytes": 2500, "quant": None}
    ]
    assert {model["name"] for model in document["available"]} == set(RECIPES) - {"gemma3-270m"}


def test_list_of_models_of_ones_own(home: Home, tmp_path: Path) -> None:
    store = home.path / "models"
    gguf = write_tiny(tmp_path / "tiny.gguf", "qwen3")
    source = write_huggingface(tmp_path / "Tiny-Model", gguf)
    for name, made_of, options in (("a", gguf, []), ("b", source, ["--quant", "q4_1"])):
        assert run(Seams(), "export", str(made_of), "-o", str(store / name), *options).exit_code == 0
    first, second = run(home.seams(), "list").stdout.splitlines()[1:3]
    assert first.endswith("from tiny.gguf")
    assert second.endswith("from Tiny-Model; attn=q4_1,mlp=q4_1,head=q8_0")
    document = json.loads(run(home.seams(), "list", "--json").stdout)
    assert [one["quant"] for one in document["installed"]] == [None, "attn=q4_1,mlp=q4_1,head=q8_0"]


def test_rm(home: Home) -> None:
    bundle = home.install("gemma3-270m")
    assert run(home.seams(), "rm", "gemma3-270m").stdout == "removed gemma3-270m\n"
    assert not bundle.exists()
    assert_one_line(run(home.seams(), "rm", "gemma3-270m"), 3, "gemma3-270m is not installed")
    assert_one_line(run(home.seams(), "rm", "nothing"), 3, "nothing")
    assert_one_line(run(home.seams(), "rm"), 2, "NAME")


def test_rm_cannot_leave_the_store(home: Home, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "manifest.json").write_text("{}")
    home.install()
    for name in ("../../outside", str(outside), "..", ".", "/"):
        result = run(home.seams(), "rm", name)
        assert result.exit_code != 0
        assert len(result.stderr.splitlines()) == 1
    assert outside.is_dir()
    assert (home.path / "models" / "smollm2-135m").is_dir()


def test_pull_of_an_installed_model_does_nothing(home: Home) -> None:
    bundle = home.install(size=5000)
    assert run(home.seams(), "pull", "smollm2-135m").stdout == "smollm2-135m is ready (5.0 kB)\n"
    document = json.loads(run(home.seams(), "pull", "smollm2-135m", "--json").stdout)
    assert document == {"name": "smollm2-135m", "path": str(bundle), "bytes": 5000}


@pytest.mark.parametrize(
    ("args", "status", "words"),
    [
        (("nothing",), 3, ("nothing", "`edgedec list` shows")),
        (("smollm",), 3, ("smollm2-135m",)),
        ((), 2, ("NAME",)),
        (("smollm2-135m", "--file", "missing.gguf"), 3, ("missing.gguf",)),
    ],
)
def test_pull_of_what_cannot_be(
    home: Home, args: tuple[str, ...], status: int, words: tuple[str, ...]
) -> None:
    assert_one_line(run(home.seams(), "pull", *args), status, *words)


def test_a_file_with_the_wrong_hash_is_refused(home: Home, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.gguf"
    wrong.write_bytes(b"GGUF" + bytes(1000))
    result = run(home.seams(), "pull", "smollm2-135m", "--file", str(wrong))
    assert (result.exit_code, result.stdout) == (4, "")
    assert result.stderr.splitlines()[-1].startswith("error: ")
    assert not (home.path / "models" / "smollm2-135m").exists()


def test_export_writes_a_bundle_and_says_so(home: Home, tmp_path: Path) -> None:
    source, out = write_tiny(tmp_path / "tiny.gguf"), tmp_path / "out"
    result = run(Seams(), "export", str(source), "-o", str(out), "--json")
    document = json.loads(result.stdout)
    assert result.exit_code == 0
    assert document["architecture"] == "llama"
    assert document["path"] == str(out)
    assert document["bytes"] == sum(file.stat().st_size for file in out.iterdir())
    assert {"model.onnx", "weights.bin", "tokenizer.json"} <= set(document["files"])
    again = run(Seams(), "export", str(source), "-o", str(out), "--name", "mine")
    assert again.stdout.startswith("mine: ")


def test_export_of_a_hugging_face_directory(home: Home, tmp_path: Path) -> None:
    gguf, out = write_tiny(tmp_path / "tiny.gguf", "qwen3"), tmp_path / "out"
    source = write_huggingface(tmp_path / "tiny-model", gguf)
    result = run(Seams(), "export", str(source), "-o", str(out), "--quant", "q4_1", "--json")
    document = json.loads(result.stdout)
    assert (document["name"], document["architecture"]) == ("tiny-model", "qwen3")
    assert document["source_bytes"] == sum(file.stat().st_size for file in source.iterdir())
    again = run(Seams(), "export", str(source), "-o", str(out))
    assert again.stdout.startswith("tiny-model: ")
    assert again.stdout.endswith(" times the source\n")
    assert_one_line(run(Seams(), "export", str(source), "-o", str(out), "--quant", "q1"), 2, "q8_0")
    assert_one_line(run(Seams(), "export", str(gguf), "-o", str(out), "--quant", "q8_0"), 2, "--quant is for")


def test_export_with_formats_by_part_and_calibration(home: Home, tmp_path: Path) -> None:
    gguf, out = write_tiny(tmp_path / "tiny.gguf", "qwen3"), tmp_path / "out"
    source, text = write_huggingface(tmp_path / "tiny-model", gguf), tmp_path / "text.txt"
    text.write_text("the hello world and more of it, again and again. " * 20)
    whole = ("export", str(source), "-o", str(out), "--quant", "q4_0", "--quant", "head=q5_1")
    assert run(Seams(), *whole, "--calibrate", str(text)).exit_code == 0
    about = Manifest.load(out).source
    assert about["quant"] == "attn=q4_0,mlp=q4_0,head=q5_1"
    assert about["calibration tokens"]
    assert_one_line(run(Seams(), *whole, "--calibrate", str(tmp_path / "none")), 3, "no such file")
    assert_one_line(run(Seams(), *whole, "--quant", "tail=q4_0"), 2, "attn=, mlp=, head=")
    of_a_file = run(Seams(), "export", str(gguf), "-o", str(out), "--calibrate", str(text))
    assert_one_line(of_a_file, 2, "--calibrate is for")


def test_export_never_replaces_what_is_no_bundle(home: Home, tmp_path: Path) -> None:
    source, out = write_tiny(tmp_path / "tiny.gguf"), tmp_path / "documents"
    out.mkdir()
    (out / "thesis.txt").write_text("years of work")
    assert_one_line(run(Seams(), "export", str(source), "-o", str(out)), 2, "is not a bundle")
    assert (out / "thesis.txt").read_text() == "years of work"
    assert_one_line(run(Seams(), "export", str(source), "-o", str(out / "thesis.txt")), 2, "is not a bundle")
    for below in ("x", "x/y"):
        result = run(Seams(), "export", str(source), "-o", str(out / "thesis.txt" / below))
        assert_one_line(result, 7, "a file is in the way")


def test_export_of_bad_files(home: Home, tmp_path: Path) -> None:
    whole = write_tiny(tmp_path / "tiny.gguf").read_bytes()
    out = tmp_path / "out"
    cut = tmp_path / "cut.gguf"
    for length in (0, 3, 20, len(whole) // 2, len(whole) - 1):
        cut.write_bytes(whole[:length])
        assert_one_line(run(Seams(), "export", str(cut), "-o", str(out)), 4)
    unknown = write_tiny(tmp_path / "unknown.gguf", extra={"general.architecture": "mamba"})
    assert_one_line(run(Seams(), "export", str(unknown), "-o", str(out)), 5, "mamba")
    assert_one_line(run(Seams(), "export", str(tmp_path / "none.gguf"), "-o", str(out)), 3, "no such file")
    assert_one_line(run(Seams(), "export", str(tmp_path), "-o", str(out)), 3, "has no config.json")
    assert_one_line(run(Seams(), "export", str(cut)), 2, "--output")
    assert not out.exists()
