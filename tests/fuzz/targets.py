"""What EdgeDec reads: of every kind of file small valid ones, how they are damaged, how they are read."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from edgedec.bundle.manifest import CHAT_TEMPLATE, MANIFEST, MODEL, TOKENIZER, WEIGHTS, Manifest
from edgedec.core.version import __version__
from edgedec.disk.listed_files import sealed
from edgedec.export import export_gguf
from edgedec.export.web.cpu import CPU_PROGRAM
from tests.fixtures.tiny_decoder import write_decoder_bundle
from tests.fixtures.tiny_gguf import CODED, CODED_SHAPE, write_tiny
from tests.fuzz import (
    bench,
    drafts,
    eagle3,
    encoders,
    gguf_types,
    huggingface,
    makers,
    mixtures,
    native,
    op_cases,
    places,
    schemas,
    store,
    tools,
)  # fmt: skip
from tests.fuzz.mutate import mutate_json, mutate_template
from tests.fuzz.mutate_gguf import mutate_gguf
from tests.fuzz.mutate_onnx import mutate_bundle
from tests.fuzz.ops import read_op
from tests.fuzz.target import (
    MODELS,
    Files,
    Target,
    alone,
    parts_of_bundles,
    run_bundle,
    tiny_gguf,
    with_true_sizes,
)

GGUF, TALK = "model.gguf", "talk.json"
_MODEL_PARTS = (
    "GGUF",
    "gguf",
    "architecture",
    "tensor",
    "token",
    "template",
    "metadata",
    "model",
    "bundle",
    ".json",
    "rope",
)
_TALK_PARTS = ("tool", "message", "call", "number", "context", "template", "role", "talk.json")
_HEAD_PARTS = (
    "head",
    "config.json",
    "tensor",
    "model",
    "eagle3",
    "d2t",
    "rope",
    "activation",
    "attn",
    "GGUF",
    "gguf",
    "metadata",
    "layers",
)
_OP_PARTS = ("ai.edgedec", "Node", "node", "input", "output", "OrtValue", MODEL, op_cases.CALL)
_NATIVE_PARTS = (*_MODEL_PARTS, *_OP_PARTS, "expert", "drafter", "runs without", "device", WEIGHTS)
_WEB_PARTS = (*_NATIVE_PARTS, CPU_PROGRAM, "KV cache", "recurrent states")
_MESSAGES = (
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hello <|im_end|> <bos>"},
)


def _decoder_seeds(folder: Path) -> list[tuple[Files, Files]]:
    bundle = folder / "decoder"
    if not bundle.exists():
        write_decoder_bundle(bundle)
    files = {path.name: path.read_bytes() for path in bundle.iterdir()}
    return [({name: files.pop(name) for name in (MODEL, WEIGHTS)}, files)]


def _gguf_seeds(folder: Path) -> list[tuple[Files, Files]]:
    coded = write_tiny(folder / "coded.gguf", formats=CODED, shape=CODED_SHAPE)
    files = [*(tiny_gguf(folder, *model) for model in MODELS), coded]
    return [({GGUF: file.read_bytes()}, {}) for file in files]


def _talk_seeds(folder: Path) -> list[tuple[Files, Files]]:
    document = {
        "format": "edgedec-session", "version": 2, "model": {"name": "tiny", "sha256": "0" * 64},
        "params": {"temperature": 0.5, "top_k": 40, "top_p": 0.9, "seed": 7},
        "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}],
        "text": "<|im_start|>user", "tokens": [1, 2, 3],
    }  # fmt: skip
    return [({TALK: json.dumps(document).encode()}, {})]


def read_gguf(folder: Path) -> None:
    """Export, and run what came of it: a file that is accepted has to work."""
    out = folder / "out"
    try:
        export_gguf(folder / GGUF, out)
        run_bundle(out, Manifest.load(out))
    finally:
        shutil.rmtree(out, ignore_errors=True)


def read_bundle(folder: Path) -> None:
    """The graph and weights, under a manifest that states their true sizes."""
    manifest = Manifest.from_json((folder / MANIFEST).read_text(encoding="utf-8"))
    run_bundle(folder, with_true_sizes(folder, manifest))


def read_manifest(folder: Path) -> None:
    """All of a bundle, as a chat loads it, with a hash of the manifest that is mostly right."""
    from edgedec.loaded_model import load_model

    text = (folder / MANIFEST).read_bytes()
    if len(text) % 4:
        with suppress(ValueError, RecursionError, TypeError):
            (folder / MANIFEST).write_text(json.dumps(json.loads(sealed(json.loads(text)))))
    model = load_model(folder, threads=1)
    model.backend.forward().extend([0])
    _speak(model.tokenizer, model.template)


def read_tokenizer(folder: Path) -> None:
    from edgedec.loaded_model import load_template
    from edgedec.text.tokenizer import Tokenizer

    manifest = Manifest.from_json((folder / MANIFEST).read_text(encoding="utf-8"))
    tokenizer = Tokenizer.load(folder, manifest.tokenizer)
    _speak(tokenizer, load_template(folder, tokenizer, manifest))


def read_template(folder: Path) -> None:
    from edgedec.text.template import ChatTemplate

    template = ChatTemplate.load(folder, bos="<bos>", eos="<eos>")
    assert template is not None
    template.render(_MESSAGES)


def _speak(tokenizer: Any, template: Any) -> None:
    """Text and ids back and forth, through every function a reply uses."""
    ids = tokenizer.encode("Hello world, the <bos> é\u2028 12\n\n  end", parse_special=True)
    tokenizer.decode([*ids, *range(300), 2**31 - 1])
    for message in _MESSAGES:
        tokenizer.encode(message["content"])
    if template is not None:
        tokenizer.encode_chat(template, _MESSAGES)


def read_talk(folder: Path) -> None:
    """Restored into a chat, which then goes on."""
    from edgedec.bundle.model_id import ModelId
    from tests.fixtures.ready import chat_of
    from tests.fixtures.sessions import restore_session
    from tests.session.parrot import load_parrot

    model = load_parrot(folder, "Hello.", "Bye.")
    session = chat_of(model)
    restore_session(folder / TALK, session, ModelId("tiny", "0" * 64), lambda line: None)
    model.tokenizer.decode(session.prompts.seen.ids)


def _talk_seeds_2(folder: Path) -> list[tuple[Files, Files]]:
    ((files, _),) = _talk_seeds(folder)
    cache = {"layout": "float16 1x2x1x2", "edgedec": __version__, "tokens": [1, 2, 3]}
    document = json.loads(files[TALK]) | {"cache": cache}
    return [({TALK: json.dumps(document).encode()}, {})]


def read_talk_2(folder: Path) -> None:
    """The same under a hash that is right, with the bytes of three slots; what is tested lies behind it."""
    content = b"edgedec-session 2\n" + (folder / TALK).read_bytes() + b"\n" + bytes(24)
    (folder / TALK).write_bytes(content + hashlib.sha256(content).digest())
    read_talk(folder)


def _prefix_document() -> dict[str, Any]:
    facts = {"model": "0" * 64, "layout": "fp16 1x2x1x2", "edgedec": __version__}
    place = {"name": "f" * 64, "first": 0, "end": 256, "closes": False}
    return {"format": "edgedec-session", "version": 2, "prefix": {**facts, **place, "seconds": 1.5}}


def _prefix_seeds(folder: Path) -> list[tuple[Files, Files]]:
    return [({TALK: json.dumps(_prefix_document()).encode()}, {})]


def read_prefix(folder: Path) -> None:
    """A file of saved prefixes under a hash that is right, whose document says anything."""
    from edgedec.disk.home import PREFIXES
    from edgedec.session.prefix_folder import PrefixFolder
    from edgedec.session.prefix_keys import Stretch

    facts = {name: _prefix_document()["prefix"][name] for name in ("model", "layout", "edgedec")}
    stretch = Stretch("f" * 64, 0, 256)
    place = folder / PREFIXES / ("0" * 16)
    place.mkdir(parents=True, exist_ok=True)
    content = b"edgedec-session 2\n" + (folder / TALK).read_bytes() + b"\n" + bytes(24)
    (place / stretch.name).write_bytes(content + hashlib.sha256(content).digest())
    try:
        with PrefixFolder(folder, "0" * 64, facts, 1 << 30).opened(stretch) as (stored, seconds):
            assert stored.body_bytes == 24
            assert isinstance(seconds, float)
    finally:
        shutil.rmtree(folder / PREFIXES)


_ALL = (
    Target("gguf", _gguf_seeds, alone(GGUF, mutate_gguf), read_gguf, _MODEL_PARTS),
    Target("weights", gguf_types.seeds, gguf_types.mutate, gguf_types.read, _MODEL_PARTS),
    Target("huggingface", huggingface.seeds, huggingface.mutate, huggingface.read, _MODEL_PARTS),
    Target(
        "encoder",
        encoders.gguf_seeds,
        alone(encoders.GGUF, mutate_gguf),
        encoders.read_gguf,
        (*_MODEL_PARTS, *encoders.PARTS),
    ),
    Target(
        "embedding",
        encoders.directory_seeds,
        huggingface.mutate,
        encoders.read_directory,
        (*_MODEL_PARTS, *encoders.PARTS),
    ),
    Target("parts", mixtures.part_seeds, mixtures.mutate_parts, mixtures.read_parts, _MODEL_PARTS),
    Target(
        "mixture",
        mixtures.directory_seeds,
        mixtures.mutate_directory,
        mixtures.read_directory,
        _MODEL_PARTS,
    ),
    Target(
        "streamed",
        mixtures.streamed_seeds,
        mixtures.mutate_streamed,
        mixtures.read_streamed,
        (*_MODEL_PARTS, "expert"),
    ),
    Target("native", native.bundle_seeds, native.mutate_bundle_of_kinds, native.read_bundle, _NATIVE_PARTS),
    Target("carried", native.drafter_seeds, native.mutate_drafter, native.read_drafter, _NATIVE_PARTS),
    Target(
        "restored",
        native.talk_seeds,
        native.mutate_talk,
        native.read_talk,
        (native.TALK, "saved cache", "not numbers"),
    ),
    Target("program", native.web_seeds, native.mutate_web, native.read_web, _WEB_PARTS),
    Target("bundle", parts_of_bundles(MODEL, WEIGHTS), mutate_bundle, read_bundle, _MODEL_PARTS),
    Target("decoder", _decoder_seeds, mutate_bundle, read_bundle, _MODEL_PARTS),
    Target("places", parts_of_bundles(MODEL, WEIGHTS), places.mutate, places.read, _MODEL_PARTS),
    Target("op", op_cases.seeds, op_cases.mutate, read_op, _OP_PARTS),
    Target("manifest", parts_of_bundles(MANIFEST), alone(MANIFEST, mutate_json), read_manifest, _MODEL_PARTS),
    Target(
        "tokenizer", parts_of_bundles(TOKENIZER), alone(TOKENIZER, mutate_json), read_tokenizer, ("token",)
    ),
    Target(
        "template",
        parts_of_bundles(CHAT_TEMPLATE),
        alone(CHAT_TEMPLATE, mutate_template),
        read_template,
        ("template",),
    ),
    Target("session", _talk_seeds_2, alone(TALK, mutate_json), read_talk_2, (TALK,)),
    Target("prefix", _prefix_seeds, alone(TALK, mutate_json), read_prefix, ("f" * 64,)),
    Target("eagle3", eagle3.seeds, eagle3.mutate, eagle3.read, _HEAD_PARTS),
    Target("makers", makers.seeds, makers.mutate, makers.read, (*_MODEL_PARTS, "assistant")),
    Target("drafts", drafts.seeds, drafts.mutate, drafts.read, ("history",)),
    Target("schema", schemas.seeds, schemas.mutate, schemas.read, ("schema", schemas.SCHEMA)),
    Target(
        "form",
        schemas.native_seeds,
        schemas.mutate,
        schemas.read_native,
        ("schema", schemas.SCHEMA, "form of"),
    ),
    Target("tools", tools.seeds, tools.mutate, tools.read_tools, _TALK_PARTS),
    Target("questions", bench.question_seeds, bench.mutate, bench.read_question_file, (bench.QUESTIONS,)),
    Target("saved", bench.saved_seeds, bench.mutate, bench.read_saved, (bench.SAVED,)),
    Target("store", store.store_seeds, store.mutate_store, store.read_store, (store.HOME, "toy")),
    Target("wheel", store.wheel_seeds, store.mutate_wheel, store.read_wheel, (store.WHEEL, "toy.gguf")),
    Target("page", store.page_seeds, store.mutate_page, store.read_page, ("index",)),
    Target("download", store.answer_seeds, store.mutate_answer, store.read_answer, ("toy.whl",)),
)
TARGETS: Mapping[str, Target] = {target.name: target for target in _ALL}


def damaged(
    target: Target,
    seeds: list[tuple[Files, Files]],
    seed: int,
    index: int,
    keep: tuple[int, ...] | None = None,
) -> tuple[Files, Files, int]:
    """Input ``index``: (its damaged files, the others beside them, how many steps of damage it took).

    ``keep`` names the steps that are taken, of all by default; each draws from a generator of its own.
    """
    rng = random.Random(f"{seed}/{target.name}/{index}")
    files, rest = rng.choice(seeds)
    files = dict(files)
    steps = [rng.getrandbits(64) for _ in range(rng.choice((1, 1, 1, 2, 3, 5)))]
    for number, step in enumerate(steps):
        if keep is None or number in keep:
            target.mutate(files, random.Random(step))
    return files, rest, len(steps)
