"""The cache of a conversation, saved and restored: the model goes on as if it had never stopped."""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgedec.backends.onnx import model as onnx
from edgedec.backends.onnx.forward import OnnxForward
from edgedec.bundle.model_id import ModelId
from edgedec.core.errors import BadFileError
from edgedec.core.rows import HeadRows, Rows
from edgedec.decode.speculation import Speculation
from edgedec.draft import Lookup, Recycling
from edgedec.memory import sizes
from edgedec.sampling import DrawParams
from edgedec.session import saved_session as state
from edgedec.session.chat import Chat
from edgedec.session.reply import Settings
from tests.fixtures.ready import chat_of
from tests.fixtures.sessions import restore_session, save_session
from tests.fixtures.tiny_models import opened, tiny_bundle

GREEDY = Settings(DrawParams(), 12)
SEEDED = Settings(DrawParams(temperature=1.5, top_p=0.95, repetition_penalty=1.2, seed=11), 12)


def said(session: Chat, text: str) -> list[int]:
    list(session.reply(text))
    assert session.last is not None
    return session.last.tokens


def silent(line: str) -> None:
    raise AssertionError(line)


def logits_of(session: Chat, bundle_model: Any) -> bytes:
    """Of the next token, for a token that has not been said."""
    rows = bundle_model.forward.extend([5], rows=Rows(full=True))
    bundle_model.forward.rewind(bundle_model.forward.length - 1)
    assert rows.logits is not None
    return bytes(rows.logits.tobytes())


@pytest.mark.parametrize(
    ("architecture", "small"), [("llama", False), ("gemma3", False), ("gemma3", True), ("gemma4", True)]
)
@pytest.mark.parametrize("settings", [GREEDY, SEEDED], ids=["greedy", "seeded"])
def test_the_next_reply_is_the_one_that_would_have_come(
    folder: Path,
    tmp_path: Path,
    architecture: str,
    small: bool,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also when rings have gone round since the conversation began."""
    if small:
        monkeypatch.setattr(sizes, "ring_sizes", lambda: (16, 2))
        monkeypatch.setattr(onnx, "MAX_PASS_TOKENS", 16)
    bundle, path = tiny_bundle(folder, architecture), tmp_path / "talk"
    first, model_id = opened(bundle)
    going_on = chat_of(first, settings, system="Be brief.")
    said(going_on, "Hello")
    said(going_on, "hello world")
    save_session(path, going_on, model_id)

    second, _ = opened(bundle)
    restored = chat_of(second, GREEDY)
    saved = restore_session(path, restored, model_id, silent)
    restored.adjust(params=saved.params)
    assert saved.cache is not None
    assert restored.engine.committed == list(saved.cache.tokens)
    assert len(saved.cache.tokens) == second.forward.length > 60
    assert small == (second.forward.reachable(30) == 0)
    first.forward.rewind(second.forward.length)
    assert logits_of(going_on, first) == logits_of(restored, second)

    assert said(restored, "the end") == said(going_on, "the end")
    assert restored.last is not None
    assert restored.last.reused == len(saved.cache.tokens)
    assert restored.messages == going_on.messages
    assert restored.engine.committed == going_on.engine.committed


def test_drafters_go_on_with_what_was_restored(folder: Path, tmp_path: Path) -> None:
    """They learn of the restored text before the next turn, and the reply is the one without drafts."""
    bundle, path = tiny_bundle(folder), tmp_path / "talk"
    first, model_id = opened(bundle)
    plain = chat_of(first, GREEDY)
    said(plain, "Hello")
    save_session(path, plain, model_id)
    expected = said(plain, "hello hello")
    second, _ = opened(bundle)
    drafted = chat_of(second, GREEDY, speculation=Speculation([Lookup(), Recycling()]))
    said(drafted, "something else, and longer than what is restored: " + "hello world " * 3)
    restore_session(path, drafted, model_id, silent)
    assert said(drafted, "hello hello") == expected
    assert drafted.speculation is not None
    assert drafted.speculation.drafters == ("lookup", "recycling")


def test_a_prompt_that_begins_like_the_restored_tokens_reuses_them(folder: Path, tmp_path: Path) -> None:
    bundle, path = tiny_bundle(folder), tmp_path / "talk"
    first, model_id = opened(bundle)
    before = chat_of(first, GREEDY, system="Answer in the words of a long system message. " * 2)
    said(before, "Hello")
    save_session(path, before, model_id)

    second, _ = opened(bundle)
    after = chat_of(second, GREEDY)
    restore_session(path, after, model_id, silent)
    after.reset()
    said(after, "What else?")
    assert after.last is not None
    system = len(second.tokenizer.encode(before.messages[0].content, add_bos=False))
    assert after.last.reused > system
    third, _ = opened(bundle)
    assert after.last.tokens == said(chat_of(third, GREEDY, system=before.system), "What else?")


def test_what_was_taken_back_is_not_in_the_file(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle, path = tiny_bundle(folder), tmp_path / "talk"
    model, model_id = opened(bundle, context=512)
    session = chat_of(model, GREEDY, system="Be brief.")
    said(session, "Hello")
    kept, extend = session.cached(), model.forward.extend

    def interrupted(*arguments: Any, **options: Any) -> HeadRows:
        session.interrupt()
        return extend(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(model.forward, "extend", interrupted)
        assert said(session, "my secret " * 20) == []
    assert "secret" in model.tokenizer.decode(session.engine.committed)
    assert model.forward.length > len(kept) + 40
    assert session.cached()[: len(kept)] == kept
    assert "secret" not in model.tokenizer.decode(session.cached())
    save_session(path, session, model_id)
    assert document(path)["cache"]["tokens"] == session.cached()
    session.reset()
    save_session(path, session, model_id)
    assert document(path)["cache"]["tokens"] == []
    assert path.stat().st_size < 1000


def document(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_bytes().split(b"\n", 2)[1])
    return found


def rewritten(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """The file with another document, and a hash that is right."""
    first, head, rest = path.read_bytes()[:-32].split(b"\n", 2)
    content = json.loads(head)
    change(content)
    whole = b"\n".join([first, json.dumps(content).encode(), rest])
    path.write_bytes(whole + hashlib.sha256(whole).digest())


def saved_talk(folder: Path, path: Path) -> tuple[Path, ModelId, list[int]]:
    """A saved conversation; its bundle, and the tokens of the turn that follows."""
    bundle = tiny_bundle(folder)
    model, model_id = opened(bundle)
    session = chat_of(model, GREEDY)
    said(session, "Hello")
    save_session(path, session, model_id)
    return bundle, model_id, said(session, "More")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda d: d["cache"].update(layout="int8 2x2x2x20"),
            "is of kind int8 2x2x2x20, and the one here fp16 2x2x2x32",
        ),
        (lambda d: d["cache"].update(edgedec="0.0.1"), "is from EdgeDec 0.0.1"),
    ],
)
def test_a_cache_that_does_not_fit_is_rebuilt_and_one_line_says_so(
    folder: Path, tmp_path: Path, change: Callable[[dict[str, Any]], object], words: str
) -> None:
    path = tmp_path / "talk"
    bundle, model_id, expected = saved_talk(folder, path)
    rewritten(path, change)
    model, _ = opened(bundle)
    session, lines = chat_of(model, GREEDY), list[str]()
    restore_session(path, session, model_id, lines.append)
    assert len(lines) == 1
    assert words in lines[0]
    assert lines[0].endswith("the next reply reads the conversation again")
    assert model.forward.length == 0
    assert said(session, "More") == expected
    assert session.last is not None
    assert session.last.reused == 0


def test_a_cache_of_another_kind_is_rebuilt(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "talk"
    bundle, model_id, _ = saved_talk(folder, path)
    model, _ = opened(bundle, kv="int8")
    session, lines = chat_of(model, GREEDY), list[str]()
    restore_session(path, session, model_id, lines.append)
    assert [line.partition(" is of ")[2].partition(";")[0] for line in lines] == [
        "kind fp16 2x2x2x32, and the one here int8.2 2x2x2x18"
    ]
    expected = said(session, "More")
    save_session(path, session, model_id)
    last = said(session, "And more")
    again, _ = opened(bundle, kv="int8")
    restored = chat_of(again, GREEDY)
    restore_session(path, restored, model_id, silent)
    assert len(expected) > 0
    assert said(restored, "And more") == last


def test_int8_rows_of_the_format_before_are_not_read(folder: Path, tmp_path: Path) -> None:
    """They have the same size, and another meaning."""
    path, bundle = tmp_path / "talk", tiny_bundle(folder)
    model, model_id = opened(bundle, kv="int8")
    session = chat_of(model, GREEDY)
    said(session, "Hello")
    save_session(path, session, model_id)
    expected = said(session, "More")
    rewritten(path, lambda d: d["cache"].update(layout="int8 2x2x2x18"))
    restored, lines = chat_of(opened(bundle, kv="int8")[0], GREEDY), list[str]()
    restore_session(path, restored, model_id, lines.append)
    assert lines == [
        f"note: the cache in {path} is of kind int8 2x2x2x18, and the one here int8.2 2x2x2x18;"
        " the next reply reads the conversation again"
    ]
    assert said(restored, "More") == expected
    assert restored.last is not None
    assert restored.last.reused == 0


def test_a_smaller_context_reads_the_conversation_again(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "talk"
    bundle, model_id, _ = saved_talk(folder, path)
    model, _ = opened(bundle, context=20)
    session, lines = chat_of(model, GREEDY), list[str]()
    restore_session(path, session, model_id, lines.append)
    assert len(lines) == 1
    assert "tokens, and the context holds 20" in lines[0]
    larger, _ = opened(bundle, context=512)
    restore_session(path, chat_of(larger, GREEDY), model_id, silent)
    assert larger.forward.length == len(document(path)["cache"]["tokens"])


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["cache"]["tokens"].append(5),
        lambda d: d["cache"]["tokens"].pop(),
        lambda d: d["cache"]["tokens"].clear(),
        lambda d: d.update(cache=None),
        lambda d: d.pop("cache"),
    ],
)
def test_a_cache_of_the_wrong_size_is_refused_and_nothing_changes(
    folder: Path, tmp_path: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    path = tmp_path / "talk"
    bundle, model_id, _ = saved_talk(folder, path)
    rewritten(path, change)
    model, _ = opened(bundle)
    session = chat_of(model, GREEDY)
    said(session, "Before")
    messages, committed, length = [*session.messages], [*session.engine.committed], model.forward.length
    with pytest.raises(BadFileError, match="its cache has the wrong size"):
        restore_session(path, session, model_id, silent)
    assert (session.messages, session.engine.committed) == (messages, committed)
    assert model.forward.length == length


def test_damage_anywhere_is_found_and_nothing_changes(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "talk"
    bundle, model_id, _ = saved_talk(folder, path)
    model, _ = opened(bundle)
    session, whole, rng = chat_of(model, GREEDY), path.read_bytes(), random.Random(1)
    for _ in range(200):
        at, bit = rng.randrange(len(whole)), 1 << rng.randrange(8)
        broken = rng.choice(
            [
                whole[:at],
                whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :],
                whole[:at] + whole[at + 1 :],
            ]
        )
        path.write_bytes(broken)
        with pytest.raises(BadFileError) as caught:
            restore_session(path, session, model_id, silent)
        assert "\n" not in str(caught.value)
        assert (session.messages, session.engine.committed, model.forward.length) == ([], [], 0)


def test_a_file_that_is_cut_while_it_is_read_leaves_an_empty_cache(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "talk"
    bundle, model_id, expected = saved_talk(folder, path)
    model, _ = opened(bundle)
    session = chat_of(model, GREEDY)
    said(session, "Hello")
    unfit = state._unfit

    def cut(*arguments: Any) -> str:
        path.write_bytes(path.read_bytes()[:-5000])
        return unfit(*arguments)

    monkeypatch.setattr(state, "_unfit", cut)
    with pytest.raises(BadFileError, match="changed while it was read"):
        restore_session(path, session, model_id, silent)
    assert (session.engine.committed, model.forward.length) == ([], 0)
    assert said(session, "More") == expected


def test_only_resident_tokens_can_be_written(folder: Path) -> None:
    model, _ = opened(tiny_bundle(folder))
    forward = model.forward
    assert isinstance(forward, OnnxForward)
    assert forward.portable is not None
    forward.extend([1, 2, 3], parents=[-1, 0, 0])
    with pytest.raises(ValueError, match="open tree"):
        forward.write_cache(Nowhere(), 1)
    forward.keep_path([0, 2])
    with pytest.raises(ValueError, match="cannot write 3 tokens"):
        forward.write_cache(Nowhere(), 3)
    nowhere = Nowhere()
    forward.write_cache(nowhere, 2)
    assert nowhere.count == forward.cache_bytes(2)


class Nowhere:
    count = 0

    def write(self, data: memoryview, /) -> None:
        self.count += len(data)


MEMORY = """
import os, sys, hashlib
from dataclasses import replace
from pathlib import Path
from edgedec.backends.fake import tiny_spec
from edgedec.backends.onnx.kv_memory import KvMemory
from edgedec.session.session_file import open_file, write_file
from edgedec.system.memory import peak_rss_bytes
path, slots = Path(sys.argv[1]), 2048
spec = replace(tiny_spec(8, slots), n_layers=16, n_kv_heads=4, head_dim=128)
memory = KvMemory(spec, slots)
if sys.argv[2] == "save":
    memory.arrays["kv_cache"][:] = 1.5
    before = peak_rss_bytes()
    write_file(path, {"format": "edgedec-session", "version": 2}, lambda sink: memory.write(sink, slots))
    print(memory.nbytes(slots), peak_rss_bytes() - before)
else:
    before = peak_rss_bytes()
    with open_file(path) as stored:
        memory.read(stored.body, slots)
    print(memory.nbytes(slots), peak_rss_bytes() - before - memory.nbytes(slots))
    assert all((layer == 1.5).all() for layer in memory.arrays["kv_cache"])
"""


def test_the_cache_is_never_in_memory_twice(tmp_path: Path) -> None:
    """64 MiB of it, a fresh process for each way, since only the peak is known."""
    for way in ("save", "load"):
        done = subprocess.run(
            [sys.executable, "-c", MEMORY, str(tmp_path / "talk"), way],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        size, more = map(int, done.stdout.split())
        assert size == 64 << 20
        assert more < 4 << 20, way
