"""The catalogue is data: complete, well-formed, and never at odds with itself."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections import defaultdict

import pytest

from edgedec.cli.list import about_size, rounded
from edgedec.core.model_spec import ModelSpec
from edgedec.export.architectures import ARCHITECTURES
from edgedec.models.catalogue import CATALOGUE, DEFAULT_MODEL, RECIPES, Entry
from edgedec.models.layout import slug
from tests.conftest import ROOT

ENTRIES = list(CATALOGUE.values())
BITS = {"Q4_1": 5.0, "Q4_K_M": 4.9, "Q8_0": 8.5, "MXFP4": 4.6}
"""Bits a weight, about."""
OWN_HEADS = ("phi3.5-mini", "qwen3-30b-a3b", "qwen3.5-9b", "qwen3.6-35b-a3b", "gpt-oss-20b")
"""Models whose makers count a head beside the embedding."""
every = pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)


def counted(entry: Entry) -> int:
    """Parameters by the sizes of the model; a head that only its file has does not count."""
    spec = entry.spec
    of_layers = {"gemma4": _gemma4, "qwen35": _qwen35, "qwen35moe": _qwen35, "lfm2": _lfm2, "lfm2moe": _lfm2}
    layers = of_layers.get(spec.architecture, _plain)(spec) + _experts(spec)
    heads = 2 if entry.name in OWN_HEADS else 1
    return heads * spec.vocab_size * spec.hidden_size + layers


def _experts(spec: ModelSpec) -> int:
    """Experts and their router, beyond the dense MLPs that they stand in the place of, or beside."""
    if (experts := spec.experts) is None:
        return 0
    dense = 3 * (spec.ffn_size - experts.shared)
    return experts.layers * spec.hidden_size * (experts.count * (3 * experts.width + 1) - dense)


def _plain(spec: ModelSpec) -> int:
    attention = 2 * spec.head_dim * (spec.n_heads + spec.n_kv_heads)
    return spec.n_layers * spec.hidden_size * (attention + 3 * spec.ffn_size)


def _gemma4(spec: ModelSpec) -> int:
    """Layers that share keys have the MLP twice as wide in E2B; a table has a row for each layer."""
    own = sum(keys.layers for keys in spec.keys)
    full, windowed = spec.n_layers - spec.n_window_layers, spec.n_window_layers
    queries = 2 * spec.n_heads * (512 * full + 256 * windowed)
    keys = sum(2 * kind.layers * kind.kv_heads * kind.head_dim for kind in spec.keys)
    narrow = own * spec.ffn_size // 2 if spec.name == "gemma4-e2b" else 0
    mlp = 3 * (spec.n_layers * spec.ffn_size - narrow)
    embeddings = 256 * spec.n_layers if spec.table_bytes else 0
    return spec.hidden_size * (queries + keys + mlp + 3 * embeddings) + spec.vocab_size * embeddings


def _qwen35(spec: ModelSpec) -> int:
    """Attention has a gate as wide as its queries; of the other layers the trail has the sizes."""
    (keys,), (delta,) = spec.keys, spec.states
    attention = spec.head_dim * (3 * spec.n_heads + 2 * spec.n_kv_heads)
    values = delta.state // 128
    layers = (
        keys.layers * attention
        + delta.layers * (delta.trail + 2 * values)
        + 3 * spec.n_layers * spec.ffn_size
    )
    return spec.hidden_size * layers


def _lfm2(spec: ModelSpec) -> int:
    (keys,), (conv,) = spec.keys, spec.states
    attention = 2 * spec.head_dim * (spec.n_heads + spec.n_kv_heads)
    mlp = 3 * spec.n_layers * spec.ffn_size
    return spec.hidden_size * (keys.layers * attention + conv.layers * 4 * spec.hidden_size + mlp)


def test_names_are_unique_and_nobody_is_left_out() -> None:
    written = (ROOT / "models" / "catalogue.toml").read_text(encoding="utf-8")
    assert list(CATALOGUE) == [entry.name for entry in ENTRIES]
    assert len(CATALOGUE) == written.count("[[family.model]]") == 43
    assert {name: entry.recipe for name, entry in CATALOGUE.items()} == dict(RECIPES)


@every
def test_an_entry_is_complete(entry: Entry) -> None:
    recipe = entry.recipe
    assert recipe.name == entry.spec.name == slug(recipe.name).lower()
    assert recipe.wheels or recipe.hub
    assert recipe.licence.name
    assert recipe.licence.url.startswith("https://")
    assert entry.spec.architecture in ARCHITECTURES
    assert 20 < len(entry.good_for) < 95
    assert not entry.good_for.endswith(".")
    assert recipe.title.rpartition(" ")[2] in BITS


@every
def test_sizes_fit_each_other(entry: Entry) -> None:
    """The stated parameters, those that the sizes give, the bytes of the file, and the memory."""
    assert counted(entry) == pytest.approx(entry.parameters, rel=0.02)
    own_head = entry.spec.vocab_size * entry.spec.hidden_size if entry.spec.table_bytes else 0
    weights = counted(entry) + (0 if entry.name in OWN_HEADS else own_head)
    bits = BITS[entry.recipe.title.rpartition(" ")[2]]
    assert entry.recipe.bytes * 8 / weights == pytest.approx(bits, rel=0.6)  # tables may have more
    read = entry.recipe.bytes - entry.spec.table_bytes
    assert read < entry.memory() < 3.1 * read


def test_a_published_drafter_is_as_large_as_its_tensors() -> None:
    """By the sizes in the drafters' config.json, which heads share with their models."""
    published = {entry.name: entry.published.bytes for entry in ENTRIES if entry.published}
    heads = {name: _head(CATALOGUE[name].spec) for name in ("qwen3-1.7b", "qwen3-4b")}
    assert published == heads | {
        "gemma4-e2b": _assistant(1536),
        "gemma4-e4b": _assistant(2560),
        "gemma4-26b-a4b": _assistant(2816, hidden=1024, ffn=8192, heads=16, clusters=0),
    }


def _head(spec: ModelSpec) -> int:
    """Bytes of an EAGLE-3 head in 16 bits, for 32,000 tokens: it reads two states beside each other.

    The offset of each of them has 64 bits, the mark of each token of the model 8.
    """
    hidden, tokens = spec.hidden_size, 32_000
    queries, keys = spec.n_heads * spec.head_dim, spec.n_kv_heads * spec.head_dim
    layer = 2 * hidden * (queries + 2 * keys) + hidden * queries + 3 * hidden * spec.ffn_size
    return 2 * (3 * hidden**2 + layer + tokens * hidden + 4 * hidden) + 8 * tokens + spec.vocab_size


def _assistant(
    target_hidden: int, *, hidden: int = 256, ffn: int = 2048, heads: int = 4, clusters: int = 2048
) -> int:
    """Bytes of an assistant of Gemma 4 in 16 bits; the place of each token in its clusters has 64."""
    vocab = 262_144
    head_dims = (256, 256, 256, 512)
    queries = sum(2 * heads * dim * hidden + dim for dim in head_dims)  # with their norms
    layers = queries + 4 * (3 * hidden * ffn + 4 * hidden + 1)
    projections = 3 * target_hidden * hidden
    places = 8 * vocab if clusters else 0
    return 2 * ((vocab + clusters) * hidden + projections + layers + hidden) + places


@every
def test_a_hash_or_a_place_where_there_is_one(entry: Entry) -> None:
    """Nobody invented a hash: without one the hub states it, and the size is rounded."""
    recipe = entry.recipe
    if entry.exact:
        assert re.fullmatch(r"[0-9a-f]{64}", recipe.sha256 or "")
        assert recipe.file_name
        return
    assert recipe.hub is not None
    assert re.fullmatch(r"[\w.-]+/[\w.-]+", recipe.hub.repo)
    assert recipe.hub.quant == recipe.title.rpartition(" ")[2]
    assert recipe.bytes % 1_000_000 == 0


@every
def test_a_drafter_is_smaller_and_says_the_same_tokens_or_was_tried(entry: Entry) -> None:
    if entry.drafter is None:
        return
    drafter = CATALOGUE[entry.drafter]
    if not entry.tested == drafter.tested == "real":
        assert drafter.vocabulary == entry.vocabulary
        assert drafter.spec.vocab_size == entry.spec.vocab_size
    assert drafter.recipe.bytes * 1.7 < entry.recipe.bytes
    assert drafter.chats


def test_one_vocabulary_has_one_size() -> None:
    sizes = defaultdict(set)
    for entry in ENTRIES:
        sizes[entry.vocabulary].add(entry.spec.vocab_size)
    assert {name: len(found) for name, found in sizes.items()} == dict.fromkeys(sizes, 1)


@every
def test_a_preset_is_one_to_chat_with(entry: Entry) -> None:
    preset = entry.recipe.preset
    assert 0 <= preset.temperature <= 1
    assert 1 <= preset.repetition_penalty < 1.2
    assert preset.system is None


@every
def test_what_is_tested_for_real_can_be_had_from_packages(entry: Entry) -> None:
    assert (entry.tested == "real") == bool(entry.recipe.wheels)
    assert entry.exact == (entry.tested == "real")


def test_terms_that_ask_for_more_are_shown() -> None:
    asking = {entry.vocabulary for entry in ENTRIES if entry.recipe.licence.notice}
    assert asking == {"gemma3", "lfm2", "lfm2.5-8b", "llama3", "qwen2.5"}
    assert [e.name for e in ENTRIES if "qwen2" in e.name and e.recipe.licence.notice] == [
        "qwen2.5-3b",
        "qwen2.5-coder-3b",
    ]


def test_the_guide_lists_every_model() -> None:
    guide = ROOT / "docs" / "guide" / "models.md"
    catalogue = guide.read_text(encoding="utf-8").partition("## The model hub")[0]
    rows = [line for line in catalogue.splitlines() if line.startswith("| `")]
    assert rows == [
        f"| `{entry.name}` | {about_size(entry)} | {rounded(entry.memory())} | {entry.tested} | "
        f"{entry.recipe.licence.name} | {entry.good_for} |"
        for entry in ENTRIES
    ]


def test_the_default_chats_and_comes_from_any_package_index() -> None:
    entry = CATALOGUE[DEFAULT_MODEL]
    assert entry.chats
    assert entry.tested == "real"
    assert entry.recipe.wheels
    assert entry.memory() < 600_000_000


def test_pieces_are_numbered_in_order() -> None:
    numbers = [re.findall(r"\d+", wheel.member)[-1] for wheel in RECIPES["qwen2.5-coder-1.5b"].wheels]
    assert numbers == [f"{part:02d}" for part in range(1, 23)]
    numbers = [re.findall(r"\d+", wheel.member)[-1] for wheel in RECIPES["qwen2.5-coder-0.5b"].wheels]
    assert numbers == [f"{part:02d}" for part in range(1, 7)]
    numbers = [re.findall(r"\d+", wheel.member)[-1] for wheel in RECIPES["gemma3-270m"].wheels]
    assert numbers == ["00", "01", "02", "03"]


def test_importing_the_catalogue_does_not_read_it() -> None:
    """Start-up time: help and shell completion need none of it."""
    program = "import sys, edgedec.models.catalogue; print('tomllib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_looking_up_an_installed_model_loads_no_heavy_library(tmp_path: object) -> None:
    """Start-up time: what is installed is found with the standard library alone."""
    program = (
        "import sys, pathlib\n"
        "from edgedec.models import Store\n"
        "home = pathlib.Path(sys.argv[1]); bundle = home / 'models' / 'smollm2-135m'\n"
        "bundle.mkdir(parents=True)\n"
        "(bundle / 'manifest.json').write_text('{}')\n"
        "assert Store(home).ensure('smollm2-135m') == bundle\n"
        "heavy = ['httpx', 'huggingface_hub', 'gguf', 'onnx', 'onnxruntime', 'certifi', 'subprocess']\n"
        "print(*[name for name in heavy if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


def test_a_model_is_looked_up_without_the_families_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    read = tomllib.loads
    monkeypatch.setattr(tomllib, "loads", lambda text: parsed.append(text) or read(text))
    for name, entry in CATALOGUE.items():
        parsed.clear()
        fresh = type(CATALOGUE)()
        assert fresh.get(name) == entry
        assert len(parsed) == 2, "the licences and one family"
    parsed.clear()
    fresh = type(CATALOGUE)()
    strange = ("", "nobody", "Apache-2.0", 'x"\nname = "y', "smollm2")
    assert not [name for name in strange if name in fresh or fresh.may_have_drafter(name)]
    may = {name for name in CATALOGUE if fresh.may_have_drafter(name)}
    assert may >= {name for name, entry in CATALOGUE.items() if entry.drafter}
    assert not may & {"smollm2-135m", "qwen2.5-coder-0.5b", "gemma3-270m"}
    assert parsed == []
