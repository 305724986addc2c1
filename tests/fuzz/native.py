"""Files that the native engine opens: bundles of every kind of layer and expert, folders for phones with
their drafters, saved conversations with recurrent states, and programs of the engine for browsers.
"""

from __future__ import annotations

import hashlib
import json
import random
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from edgedec import native
from edgedec.bundle.drafter_manifest import ASSISTANT, MTP
from edgedec.bundle.manifest import MANIFEST, MODEL, WEIGHTS
from edgedec.core.errors import BadFileError, EdgeDecError
from edgedec.core_lib.library import ERRORS
from edgedec.disk.listed_files import sealed
from edgedec.export import export_gguf
from edgedec.export.device import DeviceOrder, choose_drafters, write_device_folder
from edgedec.export.web.cpu import CPU_PROGRAM
from edgedec.native.ready import make_ready
from edgedec.system.memory import rss_bytes
from tests.fixtures.carried import PLACES
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.fixtures.tiny_hybrid import DeltaShape
from tests.fuzz import huggingface, mixtures
from tests.fuzz.mutate import integer, mutate_bytes, mutate_json
from tests.fuzz.mutate_onnx import mutate_bundle, mutate_op
from tests.fuzz.target import Files, tiny_bundle
from tests.native.web import WebEngine, WebError
from tests.native.web_runs import CHEAP, with_program

_CONTEXT = 16
_PROMPT = [1, 2, 3]
_KINDS = (("gemma4", "q4_0"), ("qwen35", "q8_0"), ("lfm2", "q4_0"))
"""Heads of two sizes and rows for each layer, and two kinds of recurrent states."""
_OPS = ("Experts", "GatedDelta", "ShortConv", "TreeAttention", "QuantEmbedding")
_TARGETS = {ASSISTANT: "gemma4moe", MTP: "qwen35moe"}
_DEVICE, _DRAFTER, TALK, _CACHE, _WHERE = "device.json", "drafter.json", "talk", "cache", "bundle"
_ON_DISK = 500_000_000
"""A budget that no model has room beside, so that experts come from the disk."""
_PLAIN: dict[str, list[int]] = {}
"""Replies without drafts, by the kind of the drafter."""


def bundle_seeds(folder: Path) -> list[tuple[Files, Files]]:
    """Bundles of each kind of layer, and of models with experts."""
    bundles = [tiny_bundle(folder, *kind) for kind in _KINDS] + mixtures.bundles(folder)
    return [_parts(_ready(bundle), (MANIFEST, MODEL, WEIGHTS)) for bundle in bundles]


def mutate_bundle_of_kinds(files: Files, rng: random.Random) -> None:
    """Other facts about layers and experts, other attributes of their ops, other or fewer weights."""
    action = rng.random()
    if action < 0.4:
        files[MANIFEST] = _other_facts(files[MANIFEST], rng, ("spec",))
    elif action < 0.7:
        files[MODEL] = mutate_op(files[MODEL], rng, rng.choice(_OPS))
    elif action < 0.85:
        mutate_bundle(files, rng)
    else:
        files[WEIGHTS] = _other_bytes(files[WEIGHTS], rng)


def read_bundle(folder: Path) -> None:
    """A reply of the native engine, with experts from the disk."""
    _state_sizes(folder / MANIFEST)
    _reply(folder, "off", [])


def drafter_seeds(folder: Path) -> list[tuple[Files, Files]]:
    """Folders for phones of models with experts, with an MTP layer or an assistant."""
    out = []
    for kind in _TARGETS:
        phone = _phone(folder / f"phone-{kind}", kind)
        own = [f"drafters/{kind}/{name}" for name in (_DRAFTER, f"{kind}.onnx", WEIGHTS)]
        out.append(_parts(phone, (_DEVICE, *own)))
    return out


def mutate_drafter(files: Files, rng: random.Random) -> None:
    """Damage to the lists of files and facts, the graph or the weights of a drafter."""
    name = rng.choice(sorted(files))
    if name.endswith(".json"):
        change = _other_facts if rng.random() < 0.6 else mutate_json
        files[name] = change(files[name], rng)
    elif name.endswith(".onnx"):
        graph = {MODEL: files[name], WEIGHTS: b"\0"}
        mutate_bundle(graph, rng)
        files[name] = graph[MODEL]
    else:
        files[name] = _other_bytes(files[name], rng)


def read_drafter(folder: Path) -> None:
    """A reply with a drafter is the one without; a line says where the drafter cannot be used."""
    for path in [folder / _DEVICE, *folder.glob(f"drafters/*/{_DRAFTER}")]:
        _state_sizes(path)
    (kind,) = [kind for kind in _TARGETS if (folder / "drafters" / kind).is_dir()]
    if kind not in _PLAIN:
        _PLAIN[kind] = _reply(folder, "off", [])
    told: list[str] = []
    assert _reply(folder, kind, told) == _PLAIN[kind]
    if unused := [line for line in told if "runs without" in line]:
        raise BadFileError(unused[0])


def talk_seeds(folder: Path) -> list[tuple[Files, Files]]:
    """Conversations that the native engine saved: the document, and the bytes of the cache behind it."""
    out: list[tuple[Files, Files]] = []
    for bundle in [tiny_bundle(folder, *kind) for kind in _KINDS] + mixtures.bundles(folder)[:2]:
        model = _opened(bundle)
        model.complete("hello", max_tokens=4)
        with tempfile.TemporaryDirectory() as own:  # other workers save theirs at the same time
            file = Path(own, "saved")
            model.save(file)
            _, document, cache = file.read_bytes()[:-32].split(b"\n", 2)
        out.append(({TALK: document, _CACHE: cache}, {_WHERE: str(bundle).encode()}))
    return out


def mutate_talk(files: Files, rng: random.Random) -> None:
    if rng.random() < 0.3:
        files[_CACHE] = mutate_bytes(files[_CACHE], rng)
    elif rng.random() < 0.6:
        files[TALK] = _other_facts(files[TALK], rng)
    else:
        files[TALK] = mutate_json(files[TALK], rng)


def read_talk(folder: Path) -> None:
    """Restored under a hash that is right; the model goes on, and says the same as before if it was not."""
    bundle = Path((folder / _WHERE).read_text())
    content = b"edgedec-session 2\n" + (folder / TALK).read_bytes() + b"\n" + (folder / _CACHE).read_bytes()
    (folder / TALK).write_bytes(content + hashlib.sha256(content).digest())
    model = _opened(bundle)
    try:
        model.restore(folder / TALK)
    except EdgeDecError:
        assert model.generate(_PROMPT, max_tokens=4).tokens == _said(bundle)
        raise
    model.complete("hello world", max_tokens=4)
    with suppress(EdgeDecError):  # there is no reply to continue
        model.more(max_tokens=2)


def web_seeds(folder: Path) -> list[tuple[Files, Files]]:
    """Bundles with the program of the engine for browsers."""
    out = []
    for kind in (("llama", "q4_1"), *_KINDS):
        bundle = _ready(tiny_bundle(folder, *kind))
        if not (bundle / CPU_PROGRAM).exists():
            with_program(bundle)
        out.append(_parts(bundle, (CPU_PROGRAM, MANIFEST, WEIGHTS)))
    return out


def mutate_web(files: Files, rng: random.Random) -> None:
    action = rng.random()
    if action < 0.5:
        files[CPU_PROGRAM] = _other_facts(files[CPU_PROGRAM], rng)
    elif action < 0.8:
        files[CPU_PROGRAM] = mutate_json(files[CPU_PROGRAM], rng)
    elif action < 0.9:
        files[MANIFEST] = _other_facts(files[MANIFEST], rng, ("spec",))
    else:
        files[WEIGHTS] = _other_bytes(files[WEIGHTS], rng)


def read_web(folder: Path) -> None:
    """A reply of the engine for browsers, with drafts."""
    _state_sizes(folder / MANIFEST)
    try:
        with WebEngine(folder, context=_CONTEXT, costs=CHEAP) as engine:
            engine.begin(text="hello hello", max_tokens=4)
            while engine.turn():
                pass
    except WebError as error:
        raise ERRORS[error.code](str(error)) from error


def _ready(bundle: Path) -> Path:
    make_ready(bundle)
    return bundle


def _parts(bundle: Path, damaged: tuple[str, ...]) -> tuple[Files, Files]:
    files = {str(one.relative_to(bundle)): one.read_bytes() for one in bundle.rglob("*") if one.is_file()}
    return {name: files.pop(name) for name in damaged}, files


def _phone(folder: Path, kind: str) -> Path:
    """Folder for a phone, made once."""
    if folder.exists():
        return folder / "phone"
    folder.mkdir()
    shape = TinyShape(layers=7, context=32, delta=DeltaShape(nextn=int(kind == MTP)))
    bundle = folder / "bundle"
    export_gguf(write_tiny(folder / "model.gguf", _TARGETS[kind], shape=shape), bundle)
    place = PLACES[kind](folder, bundle=bundle)
    chosen = choose_drafters((), bundle, place.home)
    write_device_folder(DeviceOrder("android", bundle, chosen, None, place.home), folder / "phone")
    return folder / "phone"


def _reply(folder: Path, draft: str, told: list[str]) -> list[int]:
    budget = max(_ON_DISK, rss_bytes() + (100 << 20))
    settings: dict[str, Any] = {"threads": 1, "context": _CONTEXT, "memory": budget, "draft": draft}
    with native.open(folder, notice=told.append, **settings) as model:
        return model.generate(_PROMPT, max_tokens=12).tokens


@cache
def _opened(bundle: Path) -> native.NativeModel:
    return native.open(bundle, threads=1, context=_CONTEXT, draft="lookup")


@cache
def _said(bundle: Path) -> list[int]:
    with native.open(bundle, threads=1, context=_CONTEXT, draft="off") as model:
        return model.generate(_PROMPT, max_tokens=4).tokens


def _other_bytes(data: bytes, rng: random.Random) -> bytes:
    return mutate_bytes(data, rng) if rng.random() < 0.5 else data[: rng.randrange(len(data) + 1)]


def _other_facts(data: bytes, rng: random.Random, inside: tuple[str, ...] = ()) -> bytes:
    """Another number or text at a random place of a document, under a hash that is right."""
    try:
        document = json.loads(data)
        node = document
        for key in inside:
            node = node[key]
        places = list(_leaves(node))
        parent, key = rng.choice(places)
        old = parent[key]
        near = old * rng.choice((1, 2, 64)) + rng.choice((-1, 0, 1)) if isinstance(old, int) else old
        other = rng.choice(places)
        parent[key] = rng.choice((near, near, other[0][other[1]], integer(rng), *huggingface.NUMBERS))
        return sealed(document).encode("utf-8", "surrogatepass")
    except (ValueError, TypeError, KeyError, IndexError, RecursionError):  # damaged by an earlier step
        return mutate_json(data, rng)


def _leaves(value: Any) -> Any:
    """Containers and keys of everything in a document that holds nothing more."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        if isinstance(inner, dict | list) and inner:
            yield from _leaves(inner)
        else:
            yield value, key


def _state_sizes(manifest: Path) -> None:
    """Let a list of files state the sizes that they have: what is tested lies behind that check."""
    with suppress(ValueError, LookupError, TypeError, AttributeError, RecursionError, OSError):
        document = json.loads(manifest.read_bytes())
        for name, entry in document["files"].items():
            entry["bytes"] = (manifest.parent / name).stat().st_size
        manifest.write_text(sealed(document), encoding="utf-8", errors="surrogatepass")
