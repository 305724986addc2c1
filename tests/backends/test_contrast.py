"""A forward that weighs a text: rows of two sequences combined, whatever passes led there."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from edgedec.backends.contrast import contrast
from edgedec.backends.fake import MarkovForward
from edgedec.backends.onnx.model import OnnxModel
from edgedec.bundle.manifest import Manifest
from edgedec.core.cache_config import CacheConfig
from edgedec.core.errors import UnsupportedError
from edgedec.core.forward import Contrasting, Forward
from edgedec.core.rows import HeadRows, Rows
from edgedec.memory import KvType
from tests.fixtures.ready import GivenBackend
from tests.fixtures.tiny_models import tiny_bundle

FULL = Rows(full=True)
LAST = Rows(last=True, full=True)
WEIGHT = 1.5
TEXT, ASKED = [*range(20, 60)], [3, 4, 5, 6]
REPLY = [11, 12, 13, 14, 15, 16, 17, 18]


def model_of(bundle: Path) -> OnnxModel:
    return OnnxModel(bundle, Manifest.load(bundle), threads=1, spin=False)


def weighing(model: OnnxModel, kv: KvType = "fp16", capacity: int = 256, piece: int = 32) -> Forward:
    cache = CacheConfig(capacity, kv, piece)
    return model.contrasting(WEIGHT, cache, batch_tokens=piece + 16)


def part(forward: Forward) -> Contrasting:
    assert forward.contrasting is not None
    return forward.contrasting


def expected(model: OnnxModel, with_text: Sequence[int], without: Sequence[int], kv: KvType) -> bytes:
    """The combined row behind two sequences, each of which a cache of its own reads in one pass."""
    rows = [
        model.forward(CacheConfig(256, kv, 128)).extend(tokens, rows=LAST).logits
        for tokens in (with_text, without)
    ]
    assert rows[0] is not None
    assert rows[1] is not None
    made = contrast(rows[0], rows[1], WEIGHT, 1.0, model.spec.head_k)
    assert made.logits is not None
    return made.logits.tobytes()


def bits(rows: HeadRows, at: int = -1) -> bytes:
    assert rows.logits is not None
    return rows.logits[at].tobytes()


def read(forward: Forward, tokens: Sequence[int], rows: Rows = LAST) -> HeadRows:
    """Feed tokens as an engine does: in pieces without rows, the last one with them."""
    waiting = [*tokens]
    while len(waiting) > forward.caps.max_pass:
        forward.extend(waiting[: forward.caps.max_pass], rows=Rows(()))
        del waiting[: forward.caps.max_pass]
    return forward.extend(waiting, rows=rows)


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bundles")


@pytest.mark.parametrize("architecture", ["llama", "gemma3", "gemma4", "qwen35"])
@pytest.mark.parametrize("kv", ["fp16", "int8"])
def test_rows_are_those_of_both_sequences_combined(bundles: Path, architecture: str, kv: KvType) -> None:
    model = model_of(tiny_bundle(bundles, architecture))
    forward = weighing(model, kv)
    prompt = [1, *TEXT, *ASKED]
    part(forward).leave_out(len(prompt), [1, *ASKED])
    assert bits(read(forward, prompt)) == expected(model, prompt, [1, *ASKED], kv)
    for at, token in enumerate(REPLY):
        said = REPLY[: at + 1]
        row = forward.extend([token], rows=LAST)
        assert bits(row) == expected(model, [*prompt, *said], [1, *ASKED, *said], kv)


@pytest.mark.parametrize("architecture", ["llama", "gemma3", "qwen35", "lfm2moe"])
def test_trees_that_are_kept_and_rewound_leave_no_trace(bundles: Path, architecture: str) -> None:
    model = model_of(tiny_bundle(bundles, architecture))
    prompt, without = [1, *TEXT, *ASKED], [1, *ASKED]
    forward, other = weighing(model), weighing(model)
    for one in (forward, other):
        part(one).leave_out(len(prompt), without)
        read(one, prompt)
        one.rewind(len(prompt))
    rows = forward.extend([11, 12, 13, 50, 51], parents=[-1, 0, 1, 0, 3], rows=FULL)
    forward.keep_path([0, 1, 2])
    plain = [bits(other.extend([token], rows=LAST)) for token in (11, 12, 13)]
    assert [bits(rows, at) for at in range(3)] == plain
    assert forward.length == len(prompt) + 3
    assert bits(forward.extend([14], rows=LAST)) == bits(other.extend([14], rows=LAST))
    forward.rewind(forward.reachable(len(prompt) + 1))
    again = [11, 12, 13, 14][forward.length - len(prompt) :] if forward.length >= len(prompt) else None
    read(forward, [*prompt, 11, 12, 13, 14][forward.length :] if again is None else again)
    assert bits(forward.extend([15], rows=LAST)) == bits(other.extend([15], rows=LAST))


def test_another_question_about_the_text_reads_the_question_alone(bundles: Path) -> None:
    model = model_of(tiny_bundle(bundles))
    forward = weighing(model)
    first = [1, *TEXT, *ASKED]
    part(forward).leave_out(len(first), [1, *ASKED])
    read(forward, first)
    forward.extend(REPLY, rows=LAST)
    second = [1, *TEXT, 8, 9]
    part(forward).leave_out(len(second), [1, 8, 9])
    found = forward.reachable(1 + len(TEXT))
    assert found == 1 + len(TEXT)
    forward.rewind(found)
    assert bits(forward.extend([8, 9], rows=LAST)) == expected(model, second, [1, 8, 9], "fp16")


def test_the_same_prompt_again_keeps_what_follows(bundles: Path) -> None:
    forward = weighing(model_of(tiny_bundle(bundles)))
    prompt = [1, *TEXT, *ASKED]
    part(forward).leave_out(len(prompt), [1, *ASKED])
    read(forward, prompt)
    forward.extend(REPLY, rows=LAST)
    part(forward).leave_out(len(prompt), [1, *ASKED])
    assert forward.length == len(prompt) + len(REPLY)


def test_last_tokens_may_differ(bundles: Path) -> None:
    """As of a question of one token that is spelt otherwise behind a blank line."""
    model = model_of(tiny_bundle(bundles))
    forward = weighing(model)
    part(forward).leave_out(1 + len(TEXT), [7])
    assert bits(read(forward, [1, *TEXT])) == expected(model, [1, *TEXT], [7], "fp16")
    assert bits(forward.extend([9], rows=LAST)) == expected(model, [1, *TEXT, 9], [7, 9], "fp16")


def test_a_pass_that_is_too_long_for_both_is_two(bundles: Path) -> None:
    model = model_of(tiny_bundle(bundles))
    cache = CacheConfig(256, "fp16", 32)
    short, long = (model.contrasting(WEIGHT, cache, batch_tokens=most) for most in (32, 64))
    tokens = [*range(1, 30)]
    one, two = (forward.extend(tokens, rows=FULL) for forward in (short, long))
    assert [bits(one, at) for at in range(29)] == [bits(two, at) for at in range(29)]


def test_rows_of_the_prompt_are_refused_before_anything_changes(bundles: Path) -> None:
    forward = weighing(model_of(tiny_bundle(bundles)))
    part(forward).leave_out(5, [1, 2])
    with pytest.raises(ValueError, match="up to its last token"):
        forward.extend([1, 3, 4, 5, 2], rows=FULL)
    assert forward.length == 0


@pytest.mark.parametrize("without", [[], [1, 2, 3, 4, 5, 6]])
def test_a_prompt_without_its_text_is_there_and_no_longer(bundles: Path, without: list[int]) -> None:
    forward = weighing(model_of(tiny_bundle(bundles)))
    with pytest.raises(ValueError, match="remain of a prompt of 5 tokens"):
        part(forward).leave_out(5, without)


def test_it_has_no_part_that_knows_one_sequence(bundles: Path) -> None:
    forward = weighing(model_of(tiny_bundle(bundles)))
    assert [forward.peeking, forward.evicting, forward.portable, forward.copying, forward.lent] == [None] * 5
    assert (forward.caps.taps, forward.caps.exits, forward.caps.trims) == ((), (), False)
    alone = model_of(tiny_bundle(bundles)).forward(CacheConfig(256, "fp16", 32))
    assert forward.nbytes()["kv_cache"] >= 2 * alone.nbytes()["kv_cache"]
    assert forward.nbytes()["weights"] == alone.nbytes()["weights"]


def test_a_backend_without_it_says_so() -> None:
    with pytest.raises(UnsupportedError, match="no passes with a text and without it"):
        GivenBackend(MarkovForward()).contrasting(1.0, batch_tokens=8)


def random_history(forward: Forward, rng: np.random.Generator, said: list[int], start: int) -> None:
    """Chains, trees, kept paths and rewinds behind a prompt."""
    for _ in range(12):
        count = int(rng.integers(1, 6))
        tokens = [int(one) for one in rng.integers(1, 200, count)]
        if rng.random() < 0.4:
            forward.extend(tokens, rows=FULL)
            said += tokens
        elif rng.random() < 0.6:
            parents = [int(rng.integers(-1, at)) if at else -1 for at in range(count)]
            forward.extend(tokens, parents=parents, rows=FULL)
            path = [int(rng.integers(0, count))]
            while parents[path[0]] >= 0:
                path.insert(0, parents[path[0]])
            forward.keep_path(path)
            said += [tokens[at] for at in path]
        else:
            wanted = start + int(rng.integers(0, len(said) + 1))
            forward.rewind(forward.reachable(wanted))
            if (behind := forward.length - start) >= 0:
                del said[behind:]
            else:
                return


@pytest.mark.parametrize("number", range(12))
def test_random_histories_end_like_plain_ones(bundles: Path, number: int) -> None:
    architecture = ("llama", "gemma3", "gemma4")[number % 3]
    model = model_of(tiny_bundle(bundles, architecture))
    rng = np.random.default_rng(int(hashlib.sha256(str(number).encode()).hexdigest()[:8], 16))
    forward = weighing(model)
    prompt, without, said = [1, *TEXT, *ASKED], [1, *ASKED], list[int]()
    part(forward).leave_out(len(prompt), without)
    read(forward, prompt)
    random_history(forward, rng, said, len(prompt))
    read(forward, [*prompt, *said, 9][forward.length :])
    assert forward.length == len(prompt) + len(said) + 1
    row = bits(forward.extend([10], rows=LAST))
    assert row == expected(model, [*prompt, *said, 9, 10], [*without, *said, 9, 10], "fp16")
