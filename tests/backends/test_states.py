"""Recurrent states of a toy model: whatever passes, rewinds, copies and files led there, the same bits."""

from __future__ import annotations

import gc
import io
from typing import Any

import numpy as np
import pytest

from edgedec.backends.onnx.kv_forward import KvForward
from edgedec.core.cache_kinds import TRAIL_SLOTS, States
from edgedec.core.errors import BadFileError
from edgedec.core.forward import Forward
from edgedec.core.ledger import Ledger
from edgedec.core.rows import Rows
from edgedec.memory import state_bytes
from tests.fixtures.paths import path_to
from tests.fixtures.toy_recurrence import CONV, DELTA, VOCAB, toy_forward, toy_sequences, toy_spec, toy_states

FULL = Rows(full=True)
KINDS = pytest.mark.parametrize("kind", [DELTA, CONV], ids=["delta", "conv"])
UNDONE = DELTA.undone


def text(count: int, seed: int = 0) -> list[int]:
    return [int(token) for token in np.random.default_rng(seed).integers(0, VOCAB, count)]


def check(forward: Forward, tokens: list[int], kind: States = DELTA) -> None:
    """The cache holds ``tokens``, and its states are those of a plain run."""
    assert isinstance(forward, KvForward)
    assert forward.length == len(tokens)
    book, states = forward._book.states, forward._kv.states
    assert book is not None
    assert states is not None
    if kind.state:
        nothing = [np.zeros(4, np.float32)] * kind.layers
        expected = toy_states(tokens[: book.applied], kind)[1] if book.applied else nothing
        assert [row.tobytes() for row in states.arrays["delta_state"][:, 0]] == [
            np.asarray(row, np.float32).tobytes() for row in expected
        ]


def feed(forward: Forward, tokens: list[int], piece: int = 64) -> None:
    for at in range(0, len(tokens), piece):
        forward.extend(tokens[at : at + piece], rows=Rows(()))


def next_row(forward: Forward, tokens: list[int]) -> None:
    """Feed a token more and compare its row."""
    token = (len(tokens) * 7) % VOCAB
    found = forward.extend([token], rows=FULL).logits
    tokens.append(token)
    assert found is not None
    assert found[-1].tobytes() == toy_states(tokens, forward.spec.states[0])[0].tobytes()


@KINDS
@pytest.mark.parametrize("window", [0, 6])
@pytest.mark.parametrize("seed", range(8))
def test_random_histories_of_every_verb(kind: States, window: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    forward = toy_forward(toy_spec(kind, window), ring=96 if window else 0)
    tokens: list[int] = []
    fell = 0
    for _ in range(60):
        dice = rng.random()
        if dice < 0.25 or len(tokens) > 300:
            wanted = int(rng.integers(max(len(tokens) - 40, 0), len(tokens) + 1))
            expected = forward.reachable(wanted)
            forward.rewind(wanted)
            fell += expected < wanted
            del tokens[expected:]
        elif dice < 0.5:
            _tree(forward, tokens, rng)
        else:
            chain = text(int(rng.integers(1, 60 if rng.random() < 0.3 else 8)), int(rng.integers(1 << 30)))
            forward.extend(chain, rows=Rows(()))
            tokens += chain
        check(forward, tokens, kind)
        if rng.random() < 0.5:
            next_row(forward, tokens)
    assert fell


def _tree(forward: Forward, tokens: list[int], rng: np.random.Generator) -> None:
    """A pass over a tree, of which a random path stays, or its beginning, or nothing."""
    size = int(rng.integers(1, UNDONE + 1))
    parents = [int(rng.integers(-1, at)) for at in range(size)]
    drafted = text(size, int(rng.integers(1 << 30)))
    found = forward.extend(drafted, parents=parents, rows=FULL).logits
    assert found is not None
    path = path_to(int(rng.integers(-1, size)), parents)
    if path:
        told = toy_states([*tokens, *(drafted[one] for one in path)], forward.spec.states[0])[0]
        assert found[path[-1]].tobytes() == told.tobytes()
    if rng.random() < 0.2:
        forward.rewind(len(tokens))
        return
    forward.keep_path(path)
    tokens += [drafted[one] for one in path]


def test_a_long_chain_can_be_taken_back_as_far_as_its_rows_are_there() -> None:
    forward, tokens = toy_forward(toy_spec()), text(100)
    feed(forward, tokens[:50])
    assert forward.caps.most_undone == UNDONE == TRAIL_SLOTS - 3
    assert [forward.reachable(length) for length in (50, 50 - UNDONE, 49 - UNDONE)] == [50, 50 - UNDONE, 0]
    forward.rewind(30)
    check(forward, tokens[:30])
    feed(forward, tokens[30:50], 1)
    # The first pass behind the rewind took a checkpoint, where a reply would begin.
    assert [forward.reachable(length) for length in (49, 48, 30, 29)] == [49, 30, 30, 0]
    forward.rewind(40)
    assert forward.length == 30
    check(forward, tokens[:30])
    feed(forward, tokens[30:])
    check(forward, tokens)
    forward.rewind(10)
    assert forward.length == 0
    check(forward, [])


def test_tokens_drafted_one_by_one_are_taken_back_to_where_they_began() -> None:
    forward, tokens = toy_forward(toy_spec()), text(60)
    feed(forward, tokens)
    for accepted in (2, 0, 5, 1):
        forward.rewind(forward.length)
        began = len(tokens)
        drafted = text(6, accepted)
        for token in drafted:
            forward.extend([token])
        tokens += drafted[:accepted]
        if accepted < 5:
            assert forward.reachable(len(tokens)) == began
        forward.rewind(len(tokens))
        feed(forward, tokens[forward.length :], 3)
        check(forward, tokens)
        next_row(forward, tokens)


def test_trees_that_could_not_be_taken_back_are_refused() -> None:
    forward = toy_forward(toy_spec())
    with pytest.raises(ValueError, match="at most 29"):
        forward.extend(text(30), parents=[-1] * 30)
    assert forward.length == 0
    forward.extend(text(30))
    with pytest.raises(Exception, match="cannot forget a token"):
        forward.evict(0, 4)


@pytest.mark.parametrize("prompt", [0, 20, 50])
def test_a_pass_that_fails_midway_goes_back_to_the_checkpoint(prompt: int) -> None:
    forward, tokens = toy_forward(toy_spec()), text(prompt + 5)
    passes: Any = forward._passes
    feed(forward, tokens[:prompt])
    feed(forward, tokens[prompt:], 1)
    passes.fail_in = 0
    with pytest.raises(RuntimeError, match="the toy fails"):
        forward.extend(text(3))
    passes.fail_in = -1
    kept = prompt - UNDONE if prompt > TRAIL_SLOTS else 0
    check(forward, tokens[:kept])
    feed(forward, tokens[kept:])
    next_row(forward, tokens)


@pytest.mark.parametrize("length", [130, 125, 35])
@KINDS
def test_states_survive_a_file(kind: States, length: int) -> None:
    spec = toy_spec(kind)
    first, second = toy_forward(spec), toy_forward(spec)
    tokens = text(130)
    feed(first, tokens[:64])
    if length > 64:
        feed(first, tokens[64:])
        first.rewind(length)
    feed(second, text(77, 5))
    saved = first.reachable(min(length, first.length))
    assert saved == {130: 130, 125: 99 if kind.state else 125, 35: 35}[length]
    file = io.BytesIO()
    first.write_cache(file, saved)
    assert len(file.getvalue()) == first.cache_bytes(saved) == first.cache_bytes(1) + 64 * (saved - 1)
    file.seek(0)
    second.read_cache(file, saved)
    kept = tokens[:saved]
    check(second, kept, kind)
    again = io.BytesIO()
    second.write_cache(again, saved)
    assert again.getvalue() == file.getvalue()
    next_row(second, kept)
    second.rewind(max(saved - 5, 0))
    check(second, kept[: second.length], kind)


def test_a_damaged_file_leaves_an_empty_cache() -> None:
    first, tokens = toy_forward(toy_spec()), text(50)
    feed(first, tokens)
    file = io.BytesIO()
    first.write_cache(file, 50)
    keys = 64 * 50
    data = file.getvalue()
    for wrong in (data[:-1], data[: keys + 4]):
        with pytest.raises(EOFError):
            first.read_cache(io.BytesIO(wrong), 50)
        check(first, [])
    for applied in (51, 20, 1 << 63):
        wrong = data[:keys] + applied.to_bytes(8, "little") + data[keys + 8 :]
        with pytest.raises(BadFileError, match="cannot cover"):
            first.read_cache(io.BytesIO(wrong), 50)
        check(first, [])
    next_row(first, [])


def test_a_file_has_nothing_of_texts_before() -> None:
    first, second, tokens = toy_forward(toy_spec()), toy_forward(toy_spec()), text(9)
    feed(second, text(40, 8))
    second.rewind(0)
    files = []
    for forward in (first, second):
        feed(forward, tokens)
        forward.extend(text(12, 4), parents=[-1] * 12)
        forward.keep_path([])
        files.append(io.BytesIO())
        forward.write_cache(files[-1], 9)
    assert files[0].getvalue() == files[1].getvalue()


@KINDS
def test_sequences_of_a_batch_have_states_of_their_own(kind: States) -> None:
    batch = toy_sequences(toy_spec(kind), 3)
    texts = [text(40 + 11 * number, number) for number in range(3)]
    for number in (1, 0, 2):
        feed(batch.forwards[number], texts[number], 17 + number)
    for forward, tokens in zip(batch.forwards, texts, strict=True):
        check(forward, tokens, kind)
    batch.forwards[1].rewind(45)
    for number in (2, 1, 0):
        tokens = texts[number][: batch.forwards[number].length]
        next_row(batch.forwards[number], tokens)
        check(batch.forwards[number], tokens, kind)


def test_a_copied_prefix_is_what_the_source_can_still_reach() -> None:
    batch = toy_sequences(toy_spec(), 3)
    source, target, other = batch.forwards
    tokens = text(100)
    feed(source, tokens[:60])
    feed(source, tokens[60:], 1)
    feed(other, text(70, 9))
    for wanted, held in ((100, 100), (99, 99), (98, 31), (40, 31), (31, 31), (30, 0), (0, 0)):
        assert target.copy_prefix(source, wanted) == target.length == held
        check(target, tokens[:held])
        kept = tokens[:held]
        next_row(target, kept)
        target.rewind(held)
        check(target, tokens[:held])
    check(source, tokens)
    check(other, text(70, 9))


def test_the_ledger_has_trails_states_and_checkpoints() -> None:
    ledger, spec = Ledger(), toy_spec()
    forward = toy_forward(spec, ledger=ledger)
    assert ledger.by_name()["state"] == state_bytes(spec.states) == forward.nbytes()["state"]
    assert forward.nbytes()["state"] == 4 * 2 * ((32 + 3) * 2 + 2 * 4)
    del forward
    gc.collect()
    assert "state" not in ledger.by_name()
