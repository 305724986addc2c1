"""Beginnings of prompts from the disk: what follows has the tokens and the bits that it has without them."""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from edgedec.assemble.runner import Runner
from edgedec.core.cache_config import KV_FORMATS, KvType
from edgedec.core.errors import BadFileError
from edgedec.core.rows import Rows
from edgedec.decode.engine import Engine
from edgedec.export import export_gguf
from edgedec.sampling import DrawParams
from edgedec.session import prefix_folder, saved_prefixes
from edgedec.session.prefix_keys import PAGE_TOKENS
from edgedec.session.saved_prefixes import SavedPrefixes, prefixes_of
from edgedec.session.session_file import open_file
from tests.fixtures.ready import chat_of
from tests.fixtures.replies import always
from tests.fixtures.sessions import restore_session
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.fixtures.tiny_hybrid import DeltaShape
from tests.fixtures.tiny_models import run_tiny

GENEROUS = 1 << 40
CONTEXT = 2048
SHAPES = {
    "qwen2": TinyShape(context=CONTEXT),
    "gemma3": TinyShape(context=CONTEXT, layers=7, window=16),
    "qwen35": TinyShape(context=CONTEXT, layers=5, delta=DeltaShape()),
    "lfm2": TinyShape(context=CONTEXT, layers=5),
    "gemma4": TinyShape(context=CONTEXT, layers=7, window=16, head_dim=32),
    "phi3": TinyShape(context=CONTEXT, window=64),
}
Bundle = Callable[[str], Path]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    folder = tmp_path_factory.mktemp("prefixes")

    def make(architecture: str) -> Path:
        target = folder / architecture
        if not target.exists():
            gguf = write_tiny(folder / f"{architecture}.gguf", architecture, shape=SHAPES[architecture])
            export_gguf(gguf, target)
        return target

    return make


class Side:
    """A process of its own, as far as prefixes can tell: a model just opened, over the folder of a test."""

    def __init__(self, bundle: Path, home: Path, limit: int = GENEROUS, **settings: Any) -> None:
        self.lines: list[str] = []
        self.runner: Runner = run_tiny(bundle, **{"context": CONTEXT, **settings}).runner
        found = prefixes_of(self.runner, home, limit, self.lines.append)
        assert found is not None
        self.prefixes: SavedPrefixes = found

    @property
    def engine(self) -> Engine:
        return self.runner.engine

    def reply(self, prompt: Sequence[int], count: int = 6) -> tuple[int, list[int]]:
        """The tokens that came from the disk, and the reply; the prompt is saved."""
        found = self.prefixes.fetch(self.engine, prompt)
        steps = self.engine.generate(prompt, DrawParams(), max_tokens=count, stop_ids=())
        tokens = [step.token for step in steps]
        self.prefixes.keep(self.engine, prompt, len(prompt), 1000.0)
        self.prefixes.wait()
        return found, tokens

    def bits(self, prompt: Sequence[int]) -> bytes:
        """The logits behind a prompt, of what is committed fed further."""
        forward = self.engine.forward
        had = self.engine.reusable(prompt)
        forward.rewind(had)
        rest, rows = list(prompt[forward.length :]), b""
        while rest:
            piece, rest = rest[: forward.caps.max_pass], rest[forward.caps.max_pass :]
            logits = forward.extend(piece, rows=Rows(full=True)).logits
            assert logits is not None
            rows = logits[-1].tobytes()
        self.engine.reset()
        return rows


END = {"gemma3": 5, "gemma4": 5}
"""Ends messages, where that is not 2."""


def talk(*lengths: int, seed: int = 0, of: str = "qwen2") -> list[int]:
    """Messages of so many tokens, and the beginning of a reply; ``seed`` changes the last message."""
    tokens: list[int] = []
    for number, length in enumerate(lengths):
        own = number * 31 + seed * 13 * (number == len(lengths) - 1)
        tokens += [7 + (at * at * 7 + own) % 240 for at in range(length - 1)] + [END.get(of, 2)]
    return [*tokens, 9, 10, 11]


@pytest.mark.parametrize("kv", ["fp16", "int8"])
@pytest.mark.parametrize("architecture", [*SHAPES])
def test_a_prompt_after_a_restart(architecture: str, kv: KvType, bundle: Bundle, tmp_path: Path) -> None:
    """Read from the disk all but its end, also with another last message; the same bits follow."""
    model, prompt = bundle(architecture), talk(600, 300, 200, of=architecture)
    changed = talk(600, 300, 170, seed=1, of=architecture)
    plain = Side(model, tmp_path / "none", kv=kv)
    expected = [plain.reply(one)[1] for one in (prompt, changed)]
    logits = [Side(model, tmp_path / "none2", kv=kv).bits(one) for one in (prompt, changed)]
    first = Side(model, tmp_path, kv=kv)
    assert first.reply(prompt) == (0, expected[0])
    second = Side(model, tmp_path, kv=kv)
    found, tokens = second.reply(prompt)
    assert tokens == expected[0]
    assert len(prompt) - 40 < found < len(prompt)
    third = Side(model, tmp_path, kv=kv)
    found, tokens = third.reply(changed)
    assert tokens == expected[1]
    assert 900 - 40 < found <= 900 + 3
    for one, rows in zip((prompt, changed), logits, strict=True):
        fourth = Side(model, tmp_path, kv=kv)
        assert fourth.prefixes.fetch(fourth.engine, one) > 800
        assert fourth.bits(one) == rows
    assert not first.lines + second.lines + third.lines


@pytest.mark.parametrize("architecture", ["gemma3", "qwen35", "lfm2"])
def test_what_follows_a_prompt_from_the_disk_may_go_back(
    architecture: str, bundle: Bundle, tmp_path: Path
) -> None:
    """A prompt from the disk is changed in memory, drafted on, and saved again."""
    model, settings = bundle(architecture), {"draft": "lookup,recycling"}
    say = partial(talk, of=architecture)
    Side(model, tmp_path).reply(say(600, 200))
    first, plain = Side(model, tmp_path, **settings), Side(model, tmp_path / "none")
    longer = say(600, 200, 90)
    assert first.reply(say(600, 200))[0] > 700
    for prompt in (longer, say(600, 150), longer, say(600, 200, 90, 400)):
        assert first.reply(prompt, 30)[1] == plain.reply(prompt, 30)[1]
    again = Side(model, tmp_path)
    assert again.reply(longer)[0] > 800


def test_prompts_that_begin_alike_stand_once(bundle: Bundle, tmp_path: Path) -> None:
    side = Side(bundle("qwen2"), tmp_path)
    side.reply(talk(1100, 30))
    before = pages(tmp_path)
    side.reply(talk(1100, 30, seed=1))
    assert len(before) == 4
    assert pages(tmp_path) == before
    assert Side(bundle("qwen2"), tmp_path).reply(talk(1100, 200, seed=2))[0] >= 1024


def pages(home: Path) -> set[str]:
    return {path.name for path in files(home) if "-" not in path.name}


def files(home: Path) -> list[Path]:
    return sorted(path for path in home.glob("prefixes/*/*") if path.is_file())


def test_only_its_owner_can_read_them(bundle: Bundle, tmp_path: Path) -> None:
    Side(bundle("qwen2"), tmp_path).reply(talk(700))
    assert stat.S_IMODE((tmp_path / "prefixes").stat().st_mode) == 0o700
    assert files(tmp_path)
    for path in files(tmp_path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_the_oldest_go_first_and_the_bound_holds(bundle: Bundle, tmp_path: Path) -> None:
    """Beginnings stay longer than what follows them; a prompt that is used again is the newest."""
    first = Side(bundle("qwen2"), tmp_path)
    first.reply(talk(1030, seed=1))
    size = sum(path.stat().st_size for path in files(tmp_path))
    side = Side(bundle("qwen2"), tmp_path, limit=size * 5 // 2)
    side.reply(talk(1030, seed=2))
    Side(bundle("qwen2"), tmp_path).reply(talk(1030, seed=1))  # used again
    side.engine.reset()
    side.reply(talk(1030, seed=3))
    assert sum(path.stat().st_size for path in files(tmp_path)) <= size * 5 // 2
    found = {seed: Side(bundle("qwen2"), tmp_path).prefixes for seed in (1, 2, 3)}
    gained = {
        seed: one.fetch(Side(bundle("qwen2"), tmp_path).engine, talk(1030, seed=seed))
        for seed, one in found.items()
    }
    assert gained[1] >= 1024
    assert gained[3] >= 1024
    assert 0 < gained[2] < 1024


def test_a_prompt_that_is_too_large_is_saved_in_part(bundle: Bundle, tmp_path: Path) -> None:
    side = Side(bundle("qwen2"), tmp_path)
    side.reply(talk(600))
    limit = sum(path.stat().st_size for path in files(tmp_path)) + 3000
    other = Side(bundle("qwen2"), tmp_path / "other", limit=limit)
    other.reply(talk(1800))
    assert sum(path.stat().st_size for path in files(tmp_path / "other")) <= limit
    assert len(pages(tmp_path / "other")) == 2
    assert "have no room for all of a prompt" in other.lines[0]
    assert Side(bundle("qwen2"), tmp_path / "other").reply(talk(1800))[0] == 2 * PAGE_TOKENS


@pytest.mark.parametrize("where", [0.1, 0.5, 0.999])
@pytest.mark.parametrize("architecture", ["qwen2", "qwen35"])
def test_a_damaged_file_costs_a_line(architecture: str, where: float, bundle: Bundle, tmp_path: Path) -> None:
    prompt = talk(800, 300)
    expected = Side(bundle(architecture), tmp_path).reply(prompt)[1]
    victims = {path: path.read_bytes() for path in files(tmp_path)}
    for victim, data in victims.items():
        damaged = bytearray(data)
        damaged[int(len(data) * where)] ^= 4
        victim.write_bytes(damaged)
        side = Side(bundle(architecture), tmp_path)
        found = side.prefixes.fetch(side.engine, prompt)
        steps = side.engine.generate(prompt, DrawParams(), max_tokens=6, stop_ids=())
        assert [step.token for step in steps] == expected
        if side.lines:
            assert len(side.lines) == 1
            assert "its hash is wrong" in side.lines[0]
            assert not victim.exists()
        else:
            assert found > 700  # it was not needed
        victim.write_bytes(data)


def test_files_of_another_version_or_of_something_else_are_left_out(bundle: Bundle, tmp_path: Path) -> None:
    prompt = talk(600)
    Side(bundle("qwen2"), tmp_path).reply(prompt)
    first, second = sorted(pages(tmp_path))[:2]
    (path,) = {path.parent for path in files(tmp_path)}
    data = (path / first).read_bytes()
    (path / second).write_bytes(data)  # a right file under a wrong name
    side = Side(bundle("qwen2"), tmp_path)
    side.reply(prompt)
    assert "is not the saved prefix that its name says" in side.lines[0]
    for one in pages(tmp_path):
        (path / one).write_bytes(data.replace(b"edgedec-session 2", b"edgedec-session 9", 1))
    other = Side(bundle("qwen2"), tmp_path)
    assert other.reply(prompt)[0] == 0
    assert len(other.lines) == 1


def test_other_models_caches_and_versions_have_their_own(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompt = talk(600)
    Side(bundle("qwen2"), tmp_path).reply(prompt)
    count = len(files(tmp_path))
    others = [Side(bundle("qwen2"), tmp_path, kv="int8"), Side(bundle("lfm2"), tmp_path)]
    monkeypatch.setattr(saved_prefixes, "__version__", "0.0.1")
    others.append(Side(bundle("qwen2"), tmp_path))
    for side in others:
        assert side.reply(prompt)[0] == 0
        (line,) = side.lines
        assert line == f"note: {count} saved prefixes of other models, caches or versions are left alone"


def test_int8_rows_of_the_format_before_are_left_alone(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompt = talk(600)
    with monkeypatch.context() as patch:
        patch.setitem(KV_FORMATS, "int8", "int8")
        Side(bundle("qwen2"), tmp_path, kv="int8").reply(prompt)
    side, count = Side(bundle("qwen2"), tmp_path, kv="int8"), len(files(tmp_path))
    assert side.reply(prompt)[0] == 0
    assert side.lines == [f"note: {count} saved prefixes of other models, caches or versions are left alone"]
    assert Side(bundle("qwen2"), tmp_path, kv="int8").reply(prompt)[0] > 0


def test_a_full_disk_costs_a_line(bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", full)
        side = Side(bundle("qwen2"), tmp_path)
        expected = side.reply(talk(600))[1]
        side.reply(talk(600, 100))
    assert len(side.lines) == 1
    assert "no space left" in side.lines[0]
    assert not pages(tmp_path)
    assert Side(bundle("qwen2"), tmp_path).reply(talk(600)) == (0, expected)


def test_a_cache_that_changes_while_it_is_written_is_not_saved(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another conversation takes the slots in the midst of each file."""
    side, plain = Side(bundle("qwen2"), tmp_path), Side(bundle("qwen2"), tmp_path / "none")
    write, turn = prefix_folder.write_file, 0

    def taken(path: Path, document: Any, body: Any, *, durable: bool) -> None:
        def slow(sink: Any) -> None:
            nonlocal turn
            turn += 1
            other = threading.Thread(target=once, args=(talk(700, seed=40 + turn),))
            other.start()
            other.join()
            body(sink)

        write(path, document, slow, durable=durable)

    def once(prompt: list[int]) -> None:
        for _ in side.engine.generate(prompt, DrawParams(), max_tokens=1, stop_ids=()):
            pass

    monkeypatch.setattr(prefix_folder, "write_file", taken)
    side.reply(talk(700, seed=1))
    assert turn
    monkeypatch.undo()
    for seed in (1, *range(40, 40 + turn + 1)):
        fresh = Side(bundle("qwen2"), tmp_path)
        assert fresh.reply(talk(700, seed=seed))[1] == plain.reply(talk(700, seed=seed))[1]


def test_reading_that_is_slower_than_computing_ends(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Side(bundle("qwen2"), tmp_path)
    expected = first.reply(talk(1500))[1]
    ticks = iter(range(0, 1_000_000, 1000))
    monkeypatch.setattr(saved_prefixes.time, "perf_counter", lambda: float(next(ticks)))
    second = Side(bundle("qwen2"), tmp_path)
    found, tokens = second.reply(talk(1500))
    assert tokens == expected
    assert 0 < found < 1500 - PAGE_TOKENS
    assert "it takes longer than computing them" in second.lines[0]
    second.engine.reset()
    assert second.reply(talk(1500)) == (0, expected)


def test_short_prompts_and_unmeasured_ones_are_not_saved(bundle: Bundle, tmp_path: Path) -> None:
    side = Side(bundle("qwen2"), tmp_path)
    side.reply(talk(300))
    assert not files(tmp_path)
    for computed, seconds in ((20, 5.0), (700, 0.0)):
        prompt = talk(700)
        other = Side(bundle("qwen2"), tmp_path)
        for _ in other.engine.generate(prompt, DrawParams(), max_tokens=1, stop_ids=()):
            pass
        other.prefixes.keep(other.engine, prompt, computed, seconds)
        other.prefixes.wait()
        assert not files(tmp_path)


def test_memory_keeps_to_the_plan(bundle: Bundle, tmp_path: Path) -> None:
    for architecture in ("qwen2", "qwen35", "gemma3"):
        prompt = talk(600, 300, 700, of=architecture)
        for found in (False, True):
            side = Side(bundle(architecture), tmp_path, memory=1 << 30)
            assert (side.reply(prompt)[0] > 800) == found
            assert side.runner.budget
            for name, most in side.runner.ledger.most().items():
                assert most <= side.runner.budget.plan.parts[name]


def test_a_part_of_a_prefix_is_no_conversation(bundle: Bundle, tmp_path: Path) -> None:
    side = Side(bundle("qwen2"), tmp_path)
    side.reply(talk(600))
    path = files(tmp_path)[0]
    with open_file(path) as stored:
        assert stored.document["prefix"]["name"] == path.name
    ready = run_tiny(bundle("qwen2"))
    assert ready.codec.model_id
    with pytest.raises(BadFileError, match="a part of a saved prefix, and no conversation"):
        restore_session(path, chat_of(ready), ready.codec.model_id, print)


@contextmanager
def closed(side: Side) -> Iterator[Side]:
    yield side
    side.prefixes.close()


def test_closing_writes_what_waits(bundle: Bundle, tmp_path: Path) -> None:
    prompt = talk(1500)
    with closed(Side(bundle("qwen2"), tmp_path)) as side:
        for _ in side.engine.generate(prompt, DrawParams(), max_tokens=1, stop_ids=()):
            pass
        side.prefixes.keep(side.engine, prompt, len(prompt), 1000.0)
    assert len(pages(tmp_path)) == 1500 // PAGE_TOKENS
    side.prefixes.keep(side.engine, prompt, len(prompt), 1000.0)  # does nothing any more
    side.prefixes.close()


@pytest.mark.parametrize("length", [512, 513, 514, 767, 768, 769, 1025, 1279, 1280, 1281])
@pytest.mark.parametrize("architecture", ["qwen2", "qwen35"])
def test_prompts_that_end_near_the_end_of_a_page(
    architecture: str, length: int, bundle: Bundle, tmp_path: Path
) -> None:
    """A page more or less than the prompt has would be a token at a wrong place."""
    model, prompt = bundle(architecture), talk(1300)[:length]
    expected = Side(model, tmp_path).reply(prompt)[1]
    side = Side(model, tmp_path)
    found, tokens = side.reply(prompt)
    assert length - 256 - 40 < found < length
    assert tokens == expected
    longer = talk(1300)[: length + 1]
    assert Side(model, tmp_path).reply(longer)[1] == Side(model, tmp_path / "none").reply(longer)[1]


@pytest.mark.parametrize("architecture", ["qwen2", "gemma3", "qwen35"])
def test_a_process_that_read_a_damaged_file_goes_on_as_if_it_had_not(
    architecture: str, bundle: Bundle, tmp_path: Path
) -> None:
    """Keys and values that were read before the damage was found do not stay behind."""
    say = partial(talk, of=architecture)
    prompts = [say(800, 300), say(800, 200, seed=3), say(700, seed=5), say(800, 300)]
    plain = Side(bundle(architecture), tmp_path / "none")
    expected = [plain.reply(one)[1] for one in prompts]
    Side(bundle(architecture), tmp_path).reply(prompts[0])
    first = _first_pages(tmp_path)
    for path in files(tmp_path):
        data = bytearray(path.read_bytes())
        if path.name not in first:
            data[len(data) // 2] ^= 1
            path.write_bytes(data)
    side = Side(bundle(architecture), tmp_path)
    assert [side.reply(one)[1] for one in prompts] == expected
    assert len(side.lines) >= 1


def _first_pages(home: Path) -> set[str]:
    """The pages of the first tokens."""
    found = set[str]()
    for path in files(home):
        with open_file(path) as stored:
            found |= {path.name} if stored.document["prefix"]["first"] == 0 else set()
    return found


def test_a_file_that_goes_away_costs_no_token_that_memory_has(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process removes the oldest between the look at the folder and the reading."""
    say = partial(talk, of="qwen35")
    Side(bundle("qwen35"), tmp_path).reply(say(600, 300, 200))
    side = Side(bundle("qwen35"), tmp_path / "none")
    short, long = say(600, 150), say(600, 300, 200)
    side.reply(short)
    had = side.engine.reusable(long)
    assert had > 500
    side.prefixes = Side(bundle("qwen35"), tmp_path).prefixes
    names = side.prefixes._folder.names()
    for path in files(tmp_path):
        path.unlink()
    monkeypatch.setattr(side.prefixes._folder, "names", lambda: names)
    assert side.prefixes.fetch(side.engine, long) == 0
    assert side.engine.reusable(long) == had


def test_the_layer_that_predicts_further_tokens_drafts_behind_a_prompt_from_the_disk(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    folder = tmp_path_factory.mktemp("mtp")
    shape = replace(SHAPES["qwen35"], delta=DeltaShape(nextn=1))
    export_gguf(write_tiny(folder / "tiny.gguf", "qwen35", shape=shape), folder / "tiny")
    prompt = talk(600, 200)
    plain = Side(folder / "tiny", tmp_path / "none").reply(prompt, 60)[1]
    for found in (False, True):
        side = Side(folder / "tiny", tmp_path, draft="mtp")
        with always(side.engine):
            gained, tokens = side.reply(prompt, 60)
        assert (gained > 700) == found
        assert tokens == plain


def test_every_conversation_of_a_batch_is_saved(bundle: Bundle, tmp_path: Path) -> None:
    """Not only the last one."""
    prompts = [talk(700, seed=seed) for seed in (1, 2)]
    runner = run_tiny(bundle("qwen2"), context=CONTEXT, conversations=2).runner
    found = prefixes_of(runner, tmp_path, GENEROUS, print)
    assert found is not None
    for engine, prompt in zip(runner.engines, prompts, strict=True):
        with runner.reply(runner.engines.index(engine)):
            for _ in engine.generate(prompt, DrawParams(), max_tokens=1, stop_ids=()):
                pass
        found.keep(engine, prompt, len(prompt), 1000.0)
    found.close()
    runner.close()
    for prompt in prompts:
        side = Side(bundle("qwen2"), tmp_path)
        assert side.prefixes.fetch(side.engine, prompt) > 680
