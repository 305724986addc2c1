"""``edgedec check`` and ``--draft MODEL``, with tiny models that are really exported and run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from edgedec.cli.check import _verdict
from edgedec.cli.services import Services
from edgedec.disk.files import sha256_of
from edgedec.disk.listed_files import sealed
from edgedec.models import Store
from tests.cli.support import Home, assert_one_line, ran, run
from tests.fixtures.tiny_decoder import write_decoder_bundle
from tests.fixtures.tiny_gguf import TinyShape, write_tiny

SMALLER = TinyShape(layers=1, context=128)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("models")
    write_tiny(root / "target.gguf")
    write_tiny(root / "same.gguf", shape=SMALLER, seed=1)
    write_tiny(root / "other.gguf", vocab="spm", shape=SMALLER, seed=2)
    return root


@pytest.fixture
def services(models: Path) -> Services:
    return Services(store=lambda: Store(models / "home"), interactive=lambda: False)


def generate(services: Services, models: Path, *args: str) -> dict[str, object]:
    fixed = ("-m", str(models / "target.gguf"), "-p", "hello the world", "--max-tokens", "40", "--json")
    result = ran(services, "generate", *fixed, *args)
    document: dict[str, object] = json.loads(result.stdout)
    return document


@pytest.mark.parametrize("draft", ["same", "other"])
@pytest.mark.parametrize("temperature", ["0", "0.8"])
def test_a_model_drafts_and_changes_no_token(
    services: Services, models: Path, draft: str, temperature: str
) -> None:
    name = str(models / f"{draft}.gguf")
    plain = generate(services, models, "--temperature", temperature)
    drafted = generate(services, models, "--temperature", temperature, "--draft", f"auto,{name}")
    assert drafted["tokens"] == plain["tokens"]
    stats = drafted["stats"]
    assert isinstance(stats, dict)
    assert stats["draft"] == ["lookup", "recycling", name]
    assert set(stats["draft_bytes"]) == set(stats["draft"])
    weights = next((models / "home" / "models").glob(f"{draft}*/weights.bin")).stat().st_size
    assert weights < stats["draft_bytes"][name] < 10 * weights


def test_a_pair_with_the_same_vocabulary(services: Services, models: Path) -> None:
    result = ran(services, "check", str(models / "target.gguf"), str(models / "same.gguf"))
    lines = dict(line.split(maxsplit=1) for line in result.stdout.splitlines())
    assert list(lines) == ["target", "draft", "vocabulary", "memory", "pass", "verdict"]
    assert lines["vocabulary"] == "the same"
    assert lines["verdict"].startswith("can draft")
    assert "context 256" in lines["target"]
    assert "context 128" in lines["draft"]


@pytest.mark.parametrize(
    ("ratio", "gain", "words"),
    [
        (0.1, None, "can draft"),
        (
            0.1,
            {"speed_up": 1.234, "tokens_per_pass": 2.1},
            "can draft, likely 1.23 times plain decoding, 2.10 tokens a pass (of 3 questions)",
        ),
        (0.8, None, "can draft, but a pass of it takes 80% of the target's: it will hardly pay"),
    ],
)
def test_the_verdict_says_how_much_is_likely_to_be_gained(
    ratio: float, gain: dict[str, float] | None, words: str
) -> None:
    assert _verdict(ratio, gain) == words


def test_a_pair_with_other_vocabularies(services: Services, models: Path) -> None:
    result = ran(services, "check", str(models / "target.gguf"), str(models / "other.gguf"))
    lines = dict(line.split(maxsplit=1) for line in result.stdout.splitlines())
    assert "another one" in lines["vocabulary"]
    assert "0 is '<|endoftext|>' and '<pad>'" in lines["ids"]
    document = json.loads(
        run(services, "check", str(models / "target.gguf"), str(models / "other.gguf"), "--json").stdout
    )
    assert document["same_vocabulary"] is False
    assert document["differing"] > 300
    assert document["first_differing"][0] == {"id": 0, "target": "<|endoftext|>", "draft": "<pad>"}
    assert 0.5 < document["share_of_text"] < 1.0
    assert 0.5 < document["share_of_vocabulary"] < 1.0
    assert document["unsayable"][0] == {"target": " an", "draft": [" a", "n"]}
    assert document["draft_bytes"] > document["draft"]["bytes"]
    assert document["pass_ratio"] > 0.0
    assert document["gain"]["tokens_per_pass"] >= 1.0
    assert document["gain"]["speed_up"] > 0.0
    assert document["target"]["context"] == 256


def test_a_pair_that_cannot_work_is_one_line(home: Home, models: Path) -> None:
    """The drafter's tokenizer lacks what text is made of, as that of a model of something else would."""
    blind = home.path / "blind"
    store = Store(models / "home")
    shutil.copytree(store.ensure(str(models / "same.gguf")), blind)
    lame(blind)
    services = Services(store=lambda: store, interactive=lambda: False)
    refused = ("cannot draft", "'T' is unknown")
    assert_one_line(run(services, "check", str(models / "target.gguf"), str(blind)), 5, *refused)
    given = ("generate", "-m", str(models / "target.gguf"), "--raw", "-p", "x", "--max-tokens", "4")
    plain = run(services, *given, "--draft", "off")
    result = run(services, *given, "--draft", str(blind))
    assert (result.exit_code, result.stdout) == (0, plain.stdout)
    (line,) = (line for line in result.stderr.splitlines() if "runs without" in line)
    assert all(words in line for words in refused)


def lame(bundle: Path) -> None:
    """Replace every token that is not a control token by one that stands for nothing known."""
    from edgedec.bundle.manifest import Manifest

    file = bundle / "tokenizer.json"
    document = json.loads(file.read_text(encoding="utf-8"))
    vocabulary = document["model"]["vocab"]
    document["model"]["vocab"] = {
        (text if number < 3 else f"\u2603{number}"): number for text, number in vocabulary.items()
    }
    document["model"]["merges"] = []
    before = file.stat().st_size
    file.write_text(json.dumps(document), encoding="utf-8")
    manifest = bundle / "manifest.json"
    known = json.loads(manifest.read_text(encoding="utf-8"))
    assert known["files"]["tokenizer.json"]["bytes"] == before
    known["files"]["tokenizer.json"]["bytes"] = file.stat().st_size
    known["files"]["tokenizer.json"]["sha256"] = sha256_of(file)
    manifest.write_text(sealed(known), encoding="utf-8")
    Manifest.load(bundle)


def test_a_drafter_without_trees_drafts_chains(services: Services, models: Path, tmp_path: Path) -> None:
    """A bundle made with optimum."""
    decoder = str(write_decoder_bundle(tmp_path / "decoder"))
    result = ran(services, "check", str(models / "target.gguf"), decoder)
    assert "chains only" in result.stdout
    assert generate(services, models, "-m", decoder)["tokens"]  # with the default options
    assert generate(services, models, "--draft", decoder)["tokens"] == generate(services, models)["tokens"]
    assert_one_line(
        run(services, "check", decoder, str(models / "same.gguf")), 5, "nothing can draft", "optimum"
    )


def test_a_target_without_trees_is_refused(home: Home) -> None:
    result = run(home.services(home.parrot("Hi.")), "check", "smollm2-135m", "smollm2-135m")
    assert_one_line(result, 5, "nothing can draft for parrot", "trees")


def test_a_model_that_is_not_there(services: Services, models: Path, home: Home) -> None:
    target = str(models / "target.gguf")
    assert_one_line(run(services, "check", target, "no-such-model"), 3, "no-such-model")
    assert_one_line(run(services, "check", str(models / "nothing.gguf"), target), 3, "nothing.gguf")
    result = run(services, "generate", "-m", target, "-p", "x", "--draft", str(models / "nothing.gguf"))
    assert_one_line(result, 2, "no drafter", "lookup")


def test_a_file_that_is_no_model(services: Services, models: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF\x03\x00\x00\x00" + b"\x00" * 6)
    target = str(models / "target.gguf")
    assert_one_line(run(services, "check", target, str(broken)), 4, "GGUF file", "cut short")
    result = run(services, "generate", "-m", target, "-p", "x", "--draft", str(broken))
    assert_one_line(result, 4, "GGUF file", "cut short")
