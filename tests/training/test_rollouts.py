"""Replies are kept as token ids in a file that survives a kill at any byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgedec.bundle.drafter_manifest import Target
from edgedec.core.errors import BadFileError
from edgedec.training.rollouts import FILE, HELD_OUT_OF, Rollout, RolloutStore, held_out, key_of

TARGET = Target("tiny", "a" * 64, 300)
TEXTS = [f"question {number}" for number in range(5)]


def rollout(text: str, *, greedy: bool = True) -> Rollout:
    return Rollout([1, 2, len(text)], [7, 8, 9], key_of(text), greedy)


def filled(folder: Path, texts: list[str] = TEXTS) -> RolloutStore:
    store = RolloutStore(folder)
    with store.writing(TARGET) as writer:
        for text in texts:
            writer.add(rollout(text))
    return store


def test_replies_are_read_as_they_were_written(tmp_path: Path) -> None:
    store = filled(tmp_path / "rollouts")
    assert list(store) == [rollout(text) for text in TEXTS]
    assert store.target() == TARGET
    with store.writing(TARGET) as writer:
        assert (writer.replies, writer.tokens) == (5, 15)


def test_an_empty_folder_holds_none(tmp_path: Path) -> None:
    store = RolloutStore(tmp_path / "absent")
    assert list(store) == []
    assert store.target() is None


def test_a_prompt_counts_as_answered_for_one_way_of_drawing(tmp_path: Path) -> None:
    store = filled(tmp_path)
    with store.writing(TARGET) as writer:
        assert writer.answered(TEXTS[0], greedy=True)
        assert not writer.answered(TEXTS[0], greedy=False)
        assert not writer.answered("another question", greedy=True)


def test_a_file_cut_at_any_byte_is_read_and_continued(tmp_path: Path) -> None:
    whole = (filled(tmp_path / "whole").folder / FILE).read_bytes()
    for end in range(len(whole)):
        store = RolloutStore(tmp_path / "cut")
        store.folder.mkdir(exist_ok=True)
        (store.folder / FILE).write_bytes(whole[:end])
        kept = list(store)
        assert kept == [rollout(text) for text in TEXTS[: len(kept)]]
        with store.writing(TARGET) as writer:
            for text in TEXTS:
                if not writer.answered(text, greedy=True):
                    writer.add(rollout(text))
        assert (store.folder / FILE).read_bytes() == whole


def test_a_reader_beside_a_writer_sees_whole_replies(tmp_path: Path) -> None:
    store = RolloutStore(tmp_path)
    with store.writing(TARGET) as writer:
        for count, text in enumerate(TEXTS):
            assert len(list(store)) == count
            writer.add(rollout(text))
        with (tmp_path / FILE).open("ab") as stream:
            stream.write(b'{"prompt":[1,')
        assert len(list(store)) == len(TEXTS)


def test_replies_of_another_target_are_not_mixed_in(tmp_path: Path) -> None:
    store = filled(tmp_path)
    other = Target("large", "b" * 64, 300)
    with pytest.raises(BadFileError, match="holds replies of tiny, not of large"), store.writing(other):
        pass


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b"{}",
        b"nothing",
        b"[" * 9999,
        b'{"prompt":1,"reply":[],"key":"aa","greedy":true}',
        b'{"prompt":[1],"reply":[true],"key":"aa","greedy":true}',
        b'{"prompt":[1],"reply":["1"],"key":"aa","greedy":true}',
        b'{"prompt":[1],"reply":[1],"key":"no","greedy":true}',
    ],
)
def test_a_damaged_line_is_named(tmp_path: Path, line: bytes) -> None:
    store = filled(tmp_path)
    with (tmp_path / FILE).open("ab") as stream:
        stream.write(line + b"\n")
    with pytest.raises(BadFileError, match="damaged in line 7"):
        list(store)


@pytest.mark.parametrize("header", [b"[]", b"{}", b'{"format":"other","version":1,"target":{}}', b"\xff"])
def test_a_damaged_first_line_is_named(tmp_path: Path, header: bytes) -> None:
    (tmp_path / FILE).write_bytes(header + b"\n")
    with pytest.raises(BadFileError, match="damaged in line 1"):
        RolloutStore(tmp_path).target()


def test_the_split_depends_on_the_prompt_alone_and_holds_out_one_in_twenty(tmp_path: Path) -> None:
    texts = [f"prompt number {number}" for number in range(4000)]
    out = [text for text in texts if held_out(text)]
    assert len(out) == pytest.approx(len(texts) / HELD_OUT_OF, rel=0.2)
    store = filled(tmp_path, texts[:100])
    with store.writing(TARGET) as writer:
        for text in texts[:100]:
            writer.add(rollout(text, greedy=False))
    measured = {one.key for one in store.chosen(held_out=True)}
    made_of = {one.key for one in store.chosen(held_out=False)}
    assert measured == {key_of(text) for text in texts[:100] if held_out(text)}
    assert not measured & made_of
    assert len(measured | made_of) == 100
