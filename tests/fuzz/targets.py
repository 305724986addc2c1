"""What EdgeDec reads: of every kind of file small valid ones, how they are damaged, how they are read."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from edgedec.core.manifest import CHAT_TEMPLATE, MANIFEST, MODEL, TOKENIZER, WEIGHTS, FileEntry, Manifest
from edgedec.core.types import ALL_ROWS
from edgedec.export import export_gguf
from tests.fixtures.tiny_decoder import write_decoder_bundle
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.fuzz.mutate import mutate_json, mutate_template
from tests.fuzz.mutate_gguf import mutate_gguf
from tests.fuzz.mutate_onnx import mutate_bundle

Files = dict[str, bytes]
GGUF, TALK = "model.gguf", "talk.json"
_SHAPE = TinyShape(layers=1, hidden=32, ffn=32, heads=2, kv_heads=1, context=32)
_MODELS = (("llama", "q4_1"), ("qwen2", "q8_0"), ("gemma3", "q5_0"))
_MESSAGES = (
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hello <|im_end|> <bos>"},
)


@dataclass(frozen=True, slots=True)
class Target:
    """``read`` gets a folder with the damaged files, and those that a reader needs beside them."""

    name: str
    seeds: Callable[[Path], list[tuple[Files, Files]]]
    mutate: Callable[[Files, random.Random], None]
    read: Callable[[Path], None]


def _alone(
    name: str, mutate: Callable[[bytes, random.Random], bytes]
) -> Callable[[Files, random.Random], None]:
    def change(files: Files, rng: random.Random) -> None:
        files[name] = mutate(files[name], rng)

    return change


def _bundle(folder: Path, architecture: str, formats: str) -> Path:
    """A bundle of a model as small as the kernels allow, made once."""
    bundle = folder / architecture
    if not bundle.exists():
        gguf = write_tiny(folder / f"{architecture}.gguf", architecture, formats=formats, shape=_SHAPE)
        export_gguf(gguf, bundle)
    return bundle


def _parts(*damaged: str) -> Callable[[Path], list[tuple[Files, Files]]]:
    """Seeds of a target that damages these files of a bundle."""

    def seeds(folder: Path) -> list[tuple[Files, Files]]:
        out = []
        for architecture, formats in _MODELS:
            bundle = _bundle(folder, architecture, formats)
            files = {path.name: path.read_bytes() for path in bundle.iterdir()}
            rest = {name: data for name, data in files.items() if name not in damaged}
            out.append(({name: files[name] for name in damaged}, rest))
        return out

    return seeds


def _decoder_seeds(folder: Path) -> list[tuple[Files, Files]]:
    bundle = folder / "decoder"
    if not bundle.exists():
        write_decoder_bundle(bundle)
    files = {path.name: path.read_bytes() for path in bundle.iterdir()}
    return [({name: files.pop(name) for name in (MODEL, WEIGHTS)}, files)]


def _gguf_seeds(folder: Path) -> list[tuple[Files, Files]]:
    for architecture, formats in _MODELS:
        _bundle(folder, architecture, formats)
    return [({GGUF: (folder / f"{name}.gguf").read_bytes()}, {}) for name, _ in _MODELS]


def _talk_seeds(folder: Path) -> list[tuple[Files, Files]]:
    document = {
        "format": "edgedec-session", "version": 1, "model": {"name": "tiny", "sha256": "0" * 64},
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
        _run(out, Manifest.load(out))
    finally:
        shutil.rmtree(out, ignore_errors=True)


def _run(bundle: Path, manifest: Manifest) -> None:
    from edgedec.backends.decoder import DecoderForward
    from edgedec.backends.onnx import OnnxForward

    backend = DecoderForward if manifest.kind == "optimum" else OnnxForward
    capacity = min(16, manifest.spec.context_length)
    forward = backend(bundle, manifest, threads=1, capacity=capacity, spin=False)
    forward.extend([0, 1 % manifest.spec.vocab_size][:capacity], rows=ALL_ROWS)


def read_bundle(folder: Path) -> None:
    """The graph and weights, under a manifest that states their true sizes."""
    manifest = Manifest.from_json((folder / MANIFEST).read_text(encoding="utf-8"))
    sizes = {name: FileEntry((folder / name).stat().st_size, "0" * 64) for name in manifest.files}
    _run(folder, replace(manifest, files=sizes))


def read_manifest(folder: Path) -> None:
    """All of a bundle, as a chat loads it."""
    from edgedec.session.assemble import load_model

    model = load_model(folder, threads=1)
    model.forward.extend([0])
    _speak(model.tokenizer, model.template)


def read_tokenizer(folder: Path) -> None:
    from edgedec.session.assemble import load_template
    from edgedec.session.tokenizer import Tokenizer

    manifest = Manifest.from_json((folder / MANIFEST).read_text(encoding="utf-8"))
    tokenizer = Tokenizer.load(folder, manifest.tokenizer)
    _speak(tokenizer, load_template(folder, tokenizer, manifest))


def read_template(folder: Path) -> None:
    from edgedec.session.template import ChatTemplate

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
    from edgedec.session.chat import Session
    from edgedec.session.state import ModelId, restore_session
    from tests.session.parrot import load_parrot

    model = load_parrot(folder, "Hello.", "Bye.")
    session = Session(model.forward, model.tokenizer, model.template)
    restore_session(folder / TALK, session, ModelId("tiny", "0" * 64))
    model.tokenizer.decode(session.prompts.seen.ids)


TARGETS: Mapping[str, Target] = {
    target.name: target
    for target in (
        Target("gguf", _gguf_seeds, _alone(GGUF, mutate_gguf), read_gguf),
        Target("bundle", _parts(MODEL, WEIGHTS), mutate_bundle, read_bundle),
        Target("decoder", _decoder_seeds, mutate_bundle, read_bundle),
        Target("manifest", _parts(MANIFEST), _alone(MANIFEST, mutate_json), read_manifest),
        Target("tokenizer", _parts(TOKENIZER), _alone(TOKENIZER, mutate_json), read_tokenizer),
        Target("template", _parts(CHAT_TEMPLATE), _alone(CHAT_TEMPLATE, mutate_template), read_template),
        Target("conversation", _talk_seeds, _alone(TALK, mutate_json), read_talk),
    )
}


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
