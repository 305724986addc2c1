"""pull, list, rm and export."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from edgedec.bundle.manifest import Manifest
from edgedec.bundle.preset import Preset
from edgedec.cli.opening import BUDGETS, first_words
from edgedec.cli.services import Services
from edgedec.export import ModelCard, export_gguf
from edgedec.models import CATALOGUE, Licence, Recipe, Store
from edgedec.models.catalogue import DEFAULT_MODEL, recommended
from tests.cli.support import Home, assert_one_line, ran, run
from tests.fixtures.tiny_gguf import write_tiny
from tests.fixtures.tiny_huggingface import write_huggingface

TO_CHOOSE = [name for name, entry in CATALOGUE.items() if not entry.base]


def test_list_of_an_empty_store_names_the_catalogue(home: Home) -> None:
    assert run(home.services(), "list").stdout.splitlines() == [
        "No model is installed yet.",
        f"`edgedec list --all` shows {len(TO_CHOOSE)} more to pull by name.",
    ]


def test_list_of_an_installed_model(home: Home) -> None:
    home.install("gemma3-270m", size=2500)
    lines = run(home.services(), "list", env={"COLUMNS": "160"}).stdout.splitlines()
    assert lines[0] == f"Installed in {home.path}:"
    assert lines[1].split()[:3] == ["gemma3-270m", "2.5", "kB"]
    assert lines[1].endswith("licence: Gemma Terms of Use")
    assert lines[2].startswith("`edgedec list --all`")


def test_all_that_can_be_pulled(home: Home) -> None:
    home.install("gemma3-270m", size=2500)
    lines = run(home.services(), "list", "--all", env={"COLUMNS": "160"}).stdout.splitlines()
    start = lines.index("Can be pulled by name:") + 1
    assert lines[start].split() == ["NAME", "DOWNLOAD", "MEMORY", "LICENCE", "GOOD", "FOR"]
    end = lines.index("", start)
    rows = lines[start + 1 : end]
    assert [row.split()[0] for row in rows] == [name for name in TO_CHOOSE if name != "gemma3-270m"]
    first = CATALOGUE["smollm2-135m"]
    assert [cell.strip() for cell in rows[0].split("  ") if cell.strip()] == [
        "smollm2-135m", "98 MB", "298 MB", "Apache-2.0", first.good_for
    ]  # fmt: skip
    assert "~386 MB" in rows[1]
    assert not any("twin" in line for line in lines)
    said = " ".join(lines[end:])
    real = "smollm2-135m, qwen2.5-coder-0.5b, qwen2.5-coder-1.5b, gemma3-270m"
    assert f"tested with {real}; and with small copies" in said


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_catalogue_fits_the_terminal(home: Home, width: int) -> None:
    home.install("qwen2.5-coder-1.5b", size=2500)
    for command in (("list", "--all"), ("show", "qwen2.5-coder-3b")):
        lines = run(home.services(), *command, env={"COLUMNS": str(width)}).stdout.splitlines()
        unbroken = (str(home.path), "https://", "hf:")
        whole = [line for line in lines if not any(part in line for part in unbroken)]
        assert max(len(line) for line in whole) <= width
    lines = run(home.services(), "list", "--all", env={"COLUMNS": str(width)}).stdout.splitlines()
    rows = [line for line in lines if line.startswith(("qwen", "phi")) and "  " in line]
    assert len(rows) == 18
    for row in rows:
        entry = CATALOGUE[row.split()[0]]
        shown = row.split("  ")[-1].strip().removesuffix("…")
        assert entry.good_for.startswith(shown)
        assert len(shown) > 8


def test_more_about_installed_models(home: Home, tmp_path: Path) -> None:
    out = home.path / "models" / "mine"
    ran(Services(), "export", str(write_tiny(tmp_path / "t.gguf")), "-o", str(out))
    lines = run(home.services(), "list").stdout.splitlines()
    assert lines[1].split() == ["mine", *lines[1].split()[1:3], "from", "t.gguf"]
    shown = run(home.services(), "show", "mine").stdout
    assert "256 tokens" in shown
    assert "greedy" in shown
    gone = run(home.services(), "list", "--verbose")
    assert_one_line(gone, 2, "--verbose")


def test_show_of_a_model_that_is_not_installed(home: Home) -> None:
    lines = run(home.services(), "show", "Qwen3-1.7B", env={"COLUMNS": "160"}).stdout.splitlines()
    assert lines[0] == "Qwen3 1.7B, Q4_K_M"
    facts = {line[2:14].strip(): line[16:] for line in lines[1:]}
    assert facts == {
        "good for": "reasoning, arithmetic and chat in many languages",
        "installed": "no; `edgedec pull qwen3-1.7b` fetches it",
        "download": "~1.1 GB",
        "memory": "~1.7 GB with 4096 tokens of context",
        "parameters": "1,721 million",
        "context": "at most 40960 tokens",
        "licence": "Apache-2.0, https://www.apache.org/licenses/LICENSE-2.0",
        "replies": "temperature 0.6, top-k 20, top-p 0.95; may think first",
        "drafter": "qwen3-0.6b, with --draft auto,qwen3-0.6b",
        "published": "AngelSlim/Qwen3-1.7B_eagle3, a drafter of ~274.1 MB that a pull fetches too",
        "source": "hf:unsloth/Qwen3-1.7B-GGUF:Q4_K_M",
        "hash": "SHA-256 as the hub states it, kept once it is installed",
        "architecture": "qwen3, 28 layers, vocabulary of 151936",
        "tested": "a small copy with random weights, not this model itself: tell us what goes wrong",
    }


def test_an_export_keeps_the_preset_and_the_name_of_a_known_file(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same file drew its replies by its name, and took the most probable tokens as an export."""
    gguf = write_tiny(tmp_path / "download (1).gguf")
    preset = Preset(temperature=1.3, top_k=40, stops=("zz",))
    digest = hashlib.sha256(gguf.read_bytes()).hexdigest()
    licence = Licence("Toy", "https://example.org")
    recipe = Recipe("tiny", "Tiny, Q8_0", "tiny.gguf", gguf.stat().st_size, digest, licence, preset=preset)
    for module in ("names", "known_file"):
        monkeypatch.setattr(f"edgedec.models.{module}.RECIPES", {"tiny": recipe})
    store = Store(home.path)
    store.pull("tiny", source=gguf)
    out = tmp_path / "out"
    assert run(Services(), "export", str(gguf), "-o", str(out)).stdout.startswith("tiny: ")
    assert Manifest.load(out).preset == Manifest.load(store.path("tiny")).preset == preset
    real = Services(store=lambda: Store(home.path), interactive=lambda: False)
    given = ("--max-tokens", "20", "--draft", "off", "-p", "Once", "-m")
    replies = [run(real, "generate", *given, model).stdout for model in ("tiny", str(out))]
    assert replies[0] == replies[1] != ""
    assert run(real, "generate", "--temperature", "0", *given, "tiny").stdout != replies[0]


def test_an_export_keeps_the_preset_of_the_model_that_the_metadata_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    preset = Preset(temperature=0.5)
    licence = Licence("Toy", "https://example.org")
    recipe = Recipe("tiny", "TINY-Llama, Q4_K_M", None, 1, None, licence, preset=preset)
    for module in ("names", "known_file"):
        monkeypatch.setattr(f"edgedec.models.{module}.RECIPES", {"tiny": recipe})
    gguf, out = write_tiny(tmp_path / "tiny.gguf"), tmp_path / "out"
    assert run(Services(), "export", str(gguf), "-o", str(out)).stdout.startswith("Tiny llama: ")
    assert Manifest.load(out).preset == preset


def test_show_counts_the_packages_that_a_model_came_in(home: Home, tmp_path: Path) -> None:
    out = home.path / "models" / "mine"
    packages = " ".join(f"some-model-part{number}==1.0" for number in range(1, 23))
    card = ModelCard({"kind": "package index", "origin": packages})
    export_gguf(write_tiny(tmp_path / "t.gguf"), out, card=card)
    text = run(home.services(), "show", "mine").stdout
    assert "source        package index some-model-part1==1.0 and 21 more packages\n" in text


def test_the_first_start_says_what_the_default_model_is_for(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Store, "ensure", lambda store, name, progress: home.install(name))
    services = home.services(home.parrot("Hello.", "Again."))
    shutil.rmtree(home.path / "models")
    first = run(services, "run", DEFAULT_MODEL, "Hi")
    said = first_words()
    assert first.stderr == f"{said}\n"
    assert said.startswith(f"{DEFAULT_MODEL} is a small model")
    monkeypatch.undo()
    assert run(services, "run", DEFAULT_MODEL, "Hi").stderr == ""
    readme = " ".join((Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8").split())
    for nbytes in BUDGETS:
        assert recommended(nbytes).memory() < 1.05 * nbytes
        assert f"`{recommended(nbytes).name}` in {nbytes / 1e9:g} GB" in readme


def test_show_of_an_installed_model_tells_its_hash_and_preset(home: Home, tmp_path: Path) -> None:
    gguf, out = write_tiny(tmp_path / "tiny.gguf"), home.path / "models" / "mine"
    ran(Services(), "export", str(gguf), "-o", str(out))
    text = run(home.services(), "show", "mine").stdout
    assert text.startswith("mine\n")
    assert str(out) in text
    assert hashlib.sha256(gguf.read_bytes()).hexdigest() in text
    assert "replies       greedy" in text
    assert "licence       apache-2.0" in text
    assert "tested" not in text
    document = json.loads(run(home.services(), "show", "mine", "--json").stdout)
    assert document["spec"]["architecture"] == "llama"
    assert document["memory_bytes"] > 70_000_000
    assert "good_for" not in document


def test_show_for_machines(home: Home) -> None:
    document = json.loads(run(home.services(), "show", "qwen2.5-3b", "--json").stdout)
    assert (document["path"], document["sha256"], document["bytes_exact"]) == (None, None, False)
    assert document["hub"] == "hf:Qwen/Qwen2.5-3B-Instruct-GGUF:Q4_K_M"
    assert document["drafter"] == "qwen2.5-0.5b"
    assert "commercial" in document["licence"]["notice"]
    assert document["preset"] == {
        "temperature": 0.7, "top_k": 20, "top_p": 0.8, "repetition_penalty": 1.05
    }  # fmt: skip


def test_show_of_an_unknown_model_names_those_that_are_near(home: Home) -> None:
    assert_one_line(run(home.services(), "show", "quen3"), 3, "qwen3-")
    assert_one_line(run(home.services(), "show"), 2, "NAME")


def test_list_for_machines(home: Home) -> None:
    bundle = home.install("gemma3-270m", size=2500)
    document = json.loads(run(home.services(), "list", "--json").stdout)
    assert document["home"] == str(home.path)
    assert document["installed"] == [
        {"name": "gemma3-270m", "path": str(bundle), "bytes": 2500, "quant": None, "preset": None}
    ]
    assert {model["name"] for model in document["available"]} == set(CATALOGUE) - {"gemma3-270m"}


def test_show_says_what_a_model_was_trained_for(home: Home, tmp_path: Path) -> None:
    facts = {"trained for": "large-1b", "tokens a pass before": "2.5", "tokens a pass after": "2.75"}
    gguf = write_tiny(tmp_path / "tiny.gguf")
    export_gguf(gguf, home.path / "models" / "small-for-large", card=ModelCard(facts))
    export_gguf(gguf, home.path / "models" / "small")
    shown = run(home.services(), "show", "small-for-large").stdout
    assert "  trained       to draft for large-1b; tokens a pass: 2.5 before, 2.75 after\n" in shown
    assert "trained" not in run(home.services(), "show", "small").stdout


def test_list_of_models_of_ones_own(home: Home, tmp_path: Path) -> None:
    store = home.path / "models"
    gguf = write_tiny(tmp_path / "tiny.gguf", "qwen3")
    source = write_huggingface(tmp_path / "Tiny-Model", gguf)
    for name, made_of, options in (("a", gguf, []), ("b", source, ["--quant", "q4_1"])):
        ran(Services(), "export", str(made_of), "-o", str(store / name), *options)
    first, second = run(home.services(), "list").stdout.splitlines()[1:3]
    assert first.endswith("from tiny.gguf")
    assert second.endswith("from Tiny-Model; attn=q4_1,mlp=q4_1,head=q8_0")
    document = json.loads(run(home.services(), "list", "--json").stdout)
    assert [one["quant"] for one in document["installed"]] == [None, "attn=q4_1,mlp=q4_1,head=q8_0"]


def test_rm(home: Home) -> None:
    bundle = home.install("gemma3-270m")
    assert run(home.services(), "rm", "gemma3-270m").stdout == "removed gemma3-270m\n"
    assert not bundle.exists()
    assert_one_line(run(home.services(), "rm", "gemma3-270m"), 3, "gemma3-270m is not installed")
    assert_one_line(run(home.services(), "rm", "nothing"), 3, "nothing")
    assert_one_line(run(home.services(), "rm"), 2, "NAME")


def test_rm_cannot_leave_the_store(home: Home, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "manifest.json").write_text("{}")
    home.install()
    for name in ("../../outside", str(outside), "..", ".", "/"):
        result = run(home.services(), "rm", name)
        assert result.exit_code != 0
        assert len(result.stderr.splitlines()) == 1
    assert outside.is_dir()
    assert (home.path / "models" / "smollm2-135m").is_dir()


def test_pull_of_an_installed_model_does_nothing(home: Home) -> None:
    bundle = home.install(size=5000)
    assert run(home.services(), "pull", "smollm2-135m").stdout == "smollm2-135m is ready (5.0 kB)\n"
    document = json.loads(run(home.services(), "pull", "smollm2-135m", "--json").stdout)
    assert document == {"name": "smollm2-135m", "path": str(bundle), "bytes": 5000}


@pytest.mark.parametrize(
    ("args", "status", "words"),
    [
        (("nothing",), 3, ("nothing", "`edgedec list --all` shows")),
        (("smollm",), 3, ("smollm2-135m",)),
        ((), 2, ("NAME",)),
        (("smollm2-135m", "--file", "missing.gguf"), 3, ("missing.gguf",)),
    ],
)
def test_pull_of_what_cannot_be(
    home: Home, args: tuple[str, ...], status: int, words: tuple[str, ...]
) -> None:
    assert_one_line(run(home.services(), "pull", *args), status, *words)


def test_a_local_file_is_not_ignored(home: Home, tmp_path: Path) -> None:
    home.install()
    file = tmp_path / "a.gguf"
    pull = ("pull", "smollm2-135m", "--file", str(file))
    assert_one_line(run(home.services(), *pull), 3, f"no such file: {file}")
    write_tiny(file)
    assert_one_line(run(home.services(), *pull, "--keep-source"), 2, "--keep-source", "--file")
    assert_one_line(run(home.services(), "pull", str(file), "--file", str(file)), 2, "is a file already")
    done = run(home.services(), *pull)
    assert (done.exit_code, done.stdout) == (0, "smollm2-135m is ready (1.0 kB)\n")
    assert done.stderr == f"note: smollm2-135m was installed already; --force prepares it from {file}\n"


def test_a_file_with_the_wrong_hash_is_refused(home: Home, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.gguf"
    wrong.write_bytes(b"GGUF" + bytes(1000))
    result = run(home.services(), "pull", "smollm2-135m", "--file", str(wrong))
    assert (result.exit_code, result.stdout) == (4, "")
    assert result.stderr.splitlines()[-1].startswith("error: ")
    assert not (home.path / "models" / "smollm2-135m").exists()


def test_export_writes_a_bundle_and_says_so(home: Home, tmp_path: Path) -> None:
    source, out = write_tiny(tmp_path / "tiny.gguf"), tmp_path / "out"
    result = run(Services(), "export", str(source), "-o", str(out), "--json")
    document = json.loads(result.stdout)
    assert result.exit_code == 0
    assert document["architecture"] == "llama"
    assert document["path"] == str(out)
    assert document["bytes"] == sum(file.stat().st_size for file in out.iterdir())
    assert {"model.onnx", "weights.bin", "tokenizer.json"} <= set(document["files"])
    again = run(Services(), "export", str(source), "-o", str(out), "--name", "mine")
    assert again.stdout.startswith("mine: ")


def test_export_of_a_hugging_face_directory(home: Home, tmp_path: Path) -> None:
    gguf, out = write_tiny(tmp_path / "tiny.gguf", "qwen3"), tmp_path / "out"
    source = write_huggingface(tmp_path / "tiny-model", gguf)
    result = run(Services(), "export", str(source), "-o", str(out), "--quant", "q4_1", "--json")
    document = json.loads(result.stdout)
    assert (document["name"], document["architecture"]) == ("tiny-model", "qwen3")
    assert document["source_bytes"] == sum(file.stat().st_size for file in source.iterdir())
    again = run(Services(), "export", str(source), "-o", str(out))
    assert again.stdout.startswith("tiny-model: ")
    assert again.stdout.endswith(" times the source\n")
    assert_one_line(run(Services(), "export", str(source), "-o", str(out), "--quant", "q1"), 2, "q8_0")
    refused = run(Services(), "export", str(gguf), "-o", str(out), "--quant", "q8_0")
    assert_one_line(refused, 2, "--quant is for")


def test_export_with_formats_by_part_and_calibration(home: Home, tmp_path: Path) -> None:
    gguf, out = write_tiny(tmp_path / "tiny.gguf", "qwen3"), tmp_path / "out"
    source, text = write_huggingface(tmp_path / "tiny-model", gguf), tmp_path / "text.txt"
    text.write_text("the hello world and more of it, again and again. " * 20)
    whole = ("export", str(source), "-o", str(out), "--quant", "q4_0", "--quant", "head=q5_1")
    ran(Services(), *whole, "--calibrate", str(text))
    about = Manifest.load(out).source
    assert about["quant"] == "attn=q4_0,mlp=q4_0,head=q5_1"
    assert about["calibration tokens"]
    assert_one_line(run(Services(), *whole, "--calibrate", str(tmp_path / "none")), 3, "no such file")
    assert_one_line(run(Services(), *whole, "--quant", "tail=q4_0"), 2, "attn=, mlp=, head=")
    of_a_file = run(Services(), "export", str(gguf), "-o", str(out), "--calibrate", str(text))
    assert_one_line(of_a_file, 2, "--calibrate is for")


def test_export_never_replaces_what_is_no_bundle(home: Home, tmp_path: Path) -> None:
    source, out = write_tiny(tmp_path / "tiny.gguf"), tmp_path / "documents"
    out.mkdir()
    (out / "thesis.txt").write_text("years of work")
    assert_one_line(run(Services(), "export", str(source), "-o", str(out)), 2, "is not a bundle")
    assert (out / "thesis.txt").read_text() == "years of work"
    refused = run(Services(), "export", str(source), "-o", str(out / "thesis.txt"))
    assert_one_line(refused, 2, "is not a bundle")
    for below in ("x", "x/y"):
        result = run(Services(), "export", str(source), "-o", str(out / "thesis.txt" / below))
        assert_one_line(result, 7, "a file is in the way")


def test_export_of_bad_files(home: Home, tmp_path: Path) -> None:
    whole = write_tiny(tmp_path / "tiny.gguf").read_bytes()
    out = tmp_path / "out"
    cut = tmp_path / "cut.gguf"
    for length in (0, 3, 20, len(whole) // 2, len(whole) - 1):
        cut.write_bytes(whole[:length])
        assert_one_line(run(Services(), "export", str(cut), "-o", str(out)), 4)
    unknown = write_tiny(tmp_path / "unknown.gguf", extra={"general.architecture": "mamba"})
    assert_one_line(run(Services(), "export", str(unknown), "-o", str(out)), 5, "mamba")
    assert_one_line(run(Services(), "export", str(tmp_path / "none.gguf"), "-o", str(out)), 3, "no such file")
    assert_one_line(run(Services(), "export", str(tmp_path), "-o", str(out)), 3, "has no config.json")
    assert_one_line(run(Services(), "export", str(cut)), 2, "--output")
    assert not out.exists()
