"""TreeAttention: accuracy, and the promise that an output depends on its path alone, bit for bit."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from edgedec.kernels import library
from tests.kernels.attention import Model, bits, path, reference, run
from tests.kernels.float_rows import F32, byte_rows, call, float_rows, rows_of_caches, same_bits

EVERY_CACHE = pytest.mark.parametrize(("row", "int8"), rows_of_caches())
CONTEXTS = [0, 1, 15, 16, 17, 511, 512, 513]


def random_tree(seed: int, count: int) -> list[int]:
    rng = np.random.default_rng(seed)
    return [int(rng.integers(-1, token)) if rng.random() < 0.5 else token - 1 for token in range(count)]


def check(row: str, model: Model, parents: Sequence[int], length: int) -> None:
    """One pass against float64: outputs, and the keys and values in the cache."""
    tokens, cache = model.tokens(len(parents)), model.cache(length, length + len(parents) + 2)
    before = cache.copy()
    out = run(row, model, tokens, parents, cache, length)
    expected, keys, values = reference(model, tokens, parents, cache, length)
    np.testing.assert_allclose(out, expected, rtol=0, atol=4e-6)
    end = length + len(parents)
    for part, exact in enumerate((keys, values)):
        rows = cache[part, :, length:end].transpose(1, 0, 2)
        rounding = 2.0**-11 * np.abs(exact) + 2.0**-24
        assert np.all(np.abs(model.widened(rows, part) - exact) <= 1.001 * rounding)
    untouched = np.r_[0:length, end : end + 2]
    assert same_bits(bits(cache[:, :, untouched]), bits(before[:, :, untouched]))


CASES: dict[str, tuple[Model, Sequence[int], int]] = {
    **{
        f"{dim}{' interleaved' * interleaved}{' normed' * norms}": (
            Model(dim=dim, interleaved=interleaved, norms=norms, seed=dim),
            random_tree(dim, 7),
            37,
        )
        for dim in (16, 64, 80, 128, 256, 512)
        for interleaved, norms in product((False, True), repeat=2)
    },
    **{
        f"{heads} of {kv_heads}": (
            Model(heads=heads, kv_heads=kv_heads, dim=32, seed=heads),
            random_tree(heads, 16),
            20,
        )
        for heads, kv_heads in ((9, 3), (12, 2), (14, 2), (4, 1), (5, 5), (32, 1))
    },
    **{
        f"normed values of {dim}": (
            Model(dim=dim, value_norm=True, norms=True, seed=dim),
            random_tree(dim, 9),
            21,
        )
        for dim in (16, 80, 512)
    },
    **{
        f"softcap at {length}": (
            Model(dim=64, softcap=1.5, window=40, seed=length),
            random_tree(3, 9),
            length,
        )
        for length in (0, 17, 100)
    },
    **{
        f"window {window} at {length}": (Model(window=window, seed=length), [-1, 0, 0, 2, -1], length)
        for window, length in product((0, 512), CONTEXTS)
    },
    **{
        f"window {window} in a {shape}": (Model(window=window, seed=window), parents, 9)
        for window in (1, 3, 16, 33)
        for shape, parents in (("chain", range(-1, 39)), ("tree", random_tree(window, 40)))
    },
    **{
        f"sinks of {heads} at {length} in {window}": (
            Model(heads, kv_heads, dim=32, window=window, sinks=True, seed=length),
            random_tree(heads, 11),
            length,
        )
        for heads, kv_heads in ((6, 2), (16, 2), (32, 1))  # the last ones are more than a block takes
        for window, length in product((0, 12), (0, 1, 17, 100))
    },
    "sinks and a softcap": (Model(dim=64, softcap=1.5, sinks=True), random_tree(3, 9), 20),
}


@pytest.mark.parametrize("row", float_rows())
@pytest.mark.parametrize("case", CASES)
def test_follows_the_definition(row: str, case: str) -> None:
    check(row, *CASES[case])


@pytest.mark.parametrize("row", float_rows())
@pytest.mark.parametrize("length", [0, 17, 100])
def test_a_softcap_bounds_the_scores(row: str, length: int) -> None:
    models = [Model(dim=64, softcap=cap, seed=length) for cap in (0.0, 1.5)]
    plain, capped = (
        run(row, one, one.tokens(3), [-1, 0, 1], one.cache(length, length + 3), length) for one in models
    )
    assert np.abs(plain - capped).max() > 0.01


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("window", [0, 30])
@pytest.mark.parametrize(
    ("dim", "sinks"), [*((dim, False) for dim in (16, 64, 80, 128, 256, 512)), (64, True)]
)
@pytest.mark.parametrize("int8", [False, True])
def test_every_row_has_the_bits_of_the_scalar_row(
    dim: int, sinks: bool, window: int, seed: int, int8: bool
) -> None:
    model = Model(16 if sinks else 6, dim=dim, window=window, sinks=sinks, seed=seed, int8=int8)
    if not sinks:
        cap = 1.5 if seed == 1 else 0.0
        model = replace(model, norms=seed == 1, interleaved=seed == 2, softcap=cap, value_norm=seed == 2)
    tokens, parents, results = model.tokens(9), random_tree(seed, 9), []
    for row in byte_rows() if int8 else float_rows():
        cache = model.cache(45, 60)
        results.append((run(row, model, tokens, parents, cache, 45), cache))
    for out, cache in results[1:]:
        assert same_bits(out, results[0][0])
        assert same_bits(bits(cache), bits(results[0][1]))


@EVERY_CACHE
@pytest.mark.parametrize("length", [0, 40])
@pytest.mark.parametrize(("window", "ring"), [(0, False), (12, False), (12, True)])
def test_a_layer_with_shared_keys_reads_what_another_wrote(
    row: str, window: int, ring: bool, length: int, int8: bool
) -> None:
    """With the same queries it has the same bits, and it leaves the cache as it is."""
    owner = Model(dim=48, norms=True, value_norm=True, window=window, int8=int8)
    tokens, parents = owner.tokens(10), random_tree(4, 10)
    cache = owner.cache(length, length + 10)
    if ring:  # all rows of the resident tokens are there, so none is overwritten
        owner = replace(owner, ring=True)
    expected = run(row, owner, tokens, parents, cache, length)
    written = cache.copy()
    queries = np.ascontiguousarray(tokens[:, : owner.heads * owner.dim])
    out = run(row, replace(owner, shared=True), queries, parents, cache, length)
    assert same_bits(out, expected)
    assert same_bits(bits(cache), bits(written))


@pytest.mark.parametrize("row", float_rows())
@pytest.mark.parametrize("length", [0, 1, 40, 100])
def test_values_are_added_up_in_the_order_of_the_path(row: str, length: int) -> None:
    """To the last bit: queries of zeros weigh all values alike, and a scaled weight times a whole number is
    exact in float64, as is its sum with a float."""
    model = Model(heads=2, kv_heads=2, dim=48, seed=length)
    tokens, cache = model.tokens(1), model.cache(length, length + 1)
    tokens[:, : 2 * 48] = 0
    out = run(row, model, tokens, [-1], cache, length).reshape(2, 48)
    total = np.zeros((2, 48), np.float32)
    for slot in range(length + 1):
        total = (total + model.widened(cache[1, :, slot], 1)).astype(np.float32)
    assert same_bits(out, total / np.float32(length + 1))


def one_by_one(row: str, model: Model, tokens: F32, length: int, capacity: int) -> F32:
    """Feeds the tokens as a plain sequence, a pass each."""
    cache = model.cache(length, capacity)
    return np.concatenate(
        [run(row, model, tokens[i : i + 1], [-1], cache, length + i) for i in range(len(tokens))]
    )


@EVERY_CACHE
@pytest.mark.parametrize("window", [0, 20])
@pytest.mark.parametrize("count", range(2, 17))
def test_tokens_together_equal_tokens_one_by_one(row: str, count: int, window: int, int8: bool) -> None:
    model = Model(heads=9, kv_heads=3, dim=64, window=window, seed=count, int8=int8)
    tokens, cache = model.tokens(count), model.cache(29, 64)
    together = run(row, model, tokens, [token - 1 for token in range(count)], cache, 29)
    assert same_bits(together, one_by_one(row, model, tokens, 29, 64))


@EVERY_CACHE
@pytest.mark.parametrize("group", range(1, 9))
@pytest.mark.parametrize("dim", [16, 112, 144, 272])
def test_tiles_of_any_size_have_the_bits_of_single_tokens(row: str, dim: int, group: int, int8: bool) -> None:
    """Whatever is left over beside full tiles: queries, keys, values and elements; widened before or not."""
    model = Model(heads=group, kv_heads=1, dim=dim, seed=group, int8=int8)
    tokens, parents, length = model.tokens(7), [-1, 0, 1, 2, 0, 4, 5], 27 + group
    out = run(row, model, tokens, parents, model.cache(length, 50), length)
    for token in (0, 3, 6):
        plain = one_by_one(row, model, tokens[path(parents, token)], length, 50)
        assert same_bits(out[token], plain[-1]), token


@EVERY_CACHE
@pytest.mark.parametrize("length", CONTEXTS)
def test_together_equals_one_by_one_around_the_window(row: str, length: int, int8: bool) -> None:
    model = Model(window=512, seed=length, int8=int8)
    tokens, cache = model.tokens(5), model.cache(length, length + 5)
    together = run(row, model, tokens, [-1, 0, 1, 2, 3], cache, length)
    assert same_bits(together, one_by_one(row, model, tokens, length, length + 5))


@EVERY_CACHE
@pytest.mark.parametrize("window", [0, 11])
@pytest.mark.parametrize("seed", range(6))
def test_a_branch_equals_the_plain_sequence_of_its_path(row: str, seed: int, window: int, int8: bool) -> None:
    model = Model(heads=4, kv_heads=2, dim=32, window=window, seed=seed, int8=int8)
    tokens, parents, length = model.tokens(16), random_tree(seed, 16), 3 * seed
    out = run(row, model, tokens, parents, model.cache(length, 40), length)
    for token in range(16):
        plain = one_by_one(row, model, tokens[path(parents, token)], length, 40)
        assert same_bits(out[token], plain[-1]), token


@EVERY_CACHE
@pytest.mark.parametrize("seed", range(4))
def test_the_order_of_siblings_does_not_matter(row: str, seed: int, int8: bool) -> None:
    model = Model(dim=32, seed=seed, int8=int8)
    rng, tokens, parents = np.random.default_rng(seed), model.tokens(12), random_tree(seed, 12)
    order: list[int] = []  # a random order in which parents still come first
    while len(order) < 12:
        ready = [t for t in range(12) if t not in order and (parents[t] < 0 or parents[t] in order)]
        order.append(int(rng.choice(ready)))
    moved = [-1 if parents[t] < 0 else order.index(parents[t]) for t in order]
    out = run(row, model, tokens, parents, model.cache(21, 40), 21)
    shuffled = run(row, model, tokens[order], moved, model.cache(21, 40), 21)
    assert same_bits(shuffled, np.ascontiguousarray(out[order]))


@EVERY_CACHE
@pytest.mark.parametrize("split", [(1, 0, 0), (2, 0, 0), (1, 16, 16), (2, 5, 32), (3, 1, 16), (3, 1000, 48)])
@pytest.mark.parametrize("window", [0, 25])
def test_the_split_over_threads_does_not_matter(
    row: str, split: tuple[int, int, int], window: int, int8: bool
) -> None:
    model = Model(heads=14, kv_heads=2, dim=48, window=window, int8=int8)
    tokens, parents = model.tokens(60), [*range(-1, 29), *random_tree(1, 60)[30:]]
    whole = run(row, model, tokens, parents, model.cache(13, 80), 13)
    parts = run(row, model, tokens, parents, model.cache(13, 80), 13, split)
    assert same_bits(whole, parts)


@pytest.mark.parametrize("row", float_rows())
@pytest.mark.parametrize("split", [(1, 0, 0), (1, 16, 16), (1, 7, 32)])
def test_the_split_does_not_matter_to_many_heads_of_one_key(row: str, split: tuple[int, int, int]) -> None:
    model = Model(heads=100, kv_heads=1, dim=32)
    tokens, parents = model.tokens(3), [-1, 0, 0]
    whole = run(row, model, tokens, parents, model.cache(40, 50), 40)
    assert same_bits(whole, run(row, model, tokens, parents, model.cache(40, 50), 40, split))


@EVERY_CACHE
def test_a_long_context_has_the_same_bits_for_one_token_and_for_several(row: str, int8: bool) -> None:
    model = Model(heads=6, kv_heads=1, dim=16, int8=int8)
    tokens, cache = model.tokens(4), model.cache(6000, 6004)
    together = run(row, model, tokens, [-1, 0, 0, 2], cache, 6000)
    plain = one_by_one(row, model, tokens[[0, 2, 3]], 6000, 6003)
    assert same_bits(together[[0, 2, 3]], plain)


@EVERY_CACHE
def test_keys_outside_the_window_are_not_read(row: str, int8: bool) -> None:
    model = Model(window=16, int8=int8)
    tokens, cache = model.tokens(3), model.cache(50, 60)
    expected = run(row, model, tokens, [-1, 0, 1], cache.copy(), 50)
    cache[:, :, : 50 - 15] = np.float16(np.nan)
    assert same_bits(run(row, model, tokens, [-1, 0, 1], cache, 50), expected)
    assert not np.isnan(expected).any()


@EVERY_CACHE
def test_siblings_are_not_read(row: str, int8: bool) -> None:
    model = Model(int8=int8)
    tokens = model.tokens(4)
    expected = run(row, model, tokens, [-1, -1, 0, 1], model.cache(5, 20), 5)
    tokens[1] = np.float32(np.nan)
    got = run(row, model, tokens, [-1, -1, 0, 1], model.cache(5, 20), 5)
    assert same_bits(got[[0, 2]], expected[[0, 2]])
    assert np.isnan(got[[1, 3]]).all()


@pytest.mark.parametrize("row", float_rows())
def test_large_scores_do_not_overflow(row: str) -> None:
    model = Model()
    tokens = model.tokens(3)
    tokens *= np.float32(200)
    cache = model.cache(20, 30)
    out = run(row, model, tokens, [-1, 0, 1], cache, 20)
    np.testing.assert_allclose(out, reference(model, tokens, [-1, 0, 1], cache, 20)[0], rtol=0, atol=0.5)


@EVERY_CACHE
@pytest.mark.parametrize("window", [0, 4000])
def test_few_tokens_share_out_a_long_context(row: str, window: int, int8: bool) -> None:
    model = Model(heads=6, kv_heads=2, dim=96, window=window, int8=int8)
    tokens, parents, cache = model.tokens(3), [-1, 0, 0], model.cache(5000, 5003)
    assert split_for(model, 3, 5000) == (16, 336, 64)
    assert split_for(model, 3, 500) == (16, 0, 0)
    assert split_for(model, 128, 5000)[1:] == (0, 0)
    shared = run(row, model, tokens, parents, cache.copy(), 5000)
    assert same_bits(shared, run(row, model, tokens, parents, cache, 5000, (2, 0, 0)))


def split_for(model: Model, tokens: int, length: int) -> tuple[int, ...]:
    function = library.load().edgedec_tree_attention_split
    function.restype = None
    config, split = model.config(), np.zeros(3, np.uint64)
    sizes = [ctypes.c_size_t(size) for size in (tokens, length)]
    function(ctypes.byref(config), *sizes, ctypes.c_void_p(split.ctypes.data))
    return tuple(split.tolist())


def problem(model: Model, parents: Sequence[int], length: int, capacity: int) -> str | None:
    function = library.load().edgedec_tree_attention_problem
    function.restype = ctypes.c_char_p
    config, array = model.config(), np.asarray(parents, np.int64)
    sizes = [ctypes.c_size_t(size) for size in (len(parents), length, capacity)]
    message: bytes | None = function(ctypes.byref(config), ctypes.c_void_p(array.ctypes.data), *sizes)
    return None if message is None else message.decode()


@pytest.mark.parametrize(
    ("model", "parents", "length", "capacity", "word"),
    [
        (Model(), [-1, 0], 7, 8, "capacity"),
        (Model(), [-1, 1], 0, 8, "parents"),
        (Model(), [0], 0, 8, "parents"),
        (Model(), [-2], 0, 8, "parents"),
        (Model(heads=5), [-1], 0, 8, "num_heads"),
        (Model(dim=24), [-1], 0, 8, "head_dim"),
        (Model(softcap=-1.0), [-1], 0, 8, "softcap"),
        (Model(softcap=float("nan")), [-1], 0, 8, "softcap"),
    ],
)
def test_wrong_arguments_are_named(
    model: Model, parents: list[int], length: int, capacity: int, word: str
) -> None:
    assert word in (problem(model, parents, length, capacity) or "")


def test_right_arguments_have_no_problem() -> None:
    assert problem(Model(), [-1, 0, -1], 5, 8) is None


def status(row: str = "scalar", width: int = 16, split: tuple[int, int, int] | None = None) -> int:
    """The status of a pass over one token."""
    model = Model()  # three heads of a kv head: eight tokens make the most queries of a block
    tokens, cache, out = model.tokens(1), model.cache(0, 1), np.zeros((1, 96), np.float32)
    shared = None if split is None else np.array(split, np.uint64)
    return call(
        "edgedec_tree_attention", row, ctypes.byref(model.config()), tokens, model.rotary([0]),
        np.array([-1], np.int64), 1, 0, cache, 1, width, None, None, None, out, shared, None,
    )  # fmt: skip


def test_unknown_rows_are_refused() -> None:
    assert status("avx3") == 1


@pytest.mark.parametrize("split", [(0, 0, 0), (17, 0, 0), (1, 16, 8), (1, 16, 0)])
def test_impossible_splits_are_refused(split: tuple[int, int, int]) -> None:
    assert status(split=split) == 2


@pytest.mark.parametrize("width", [0, 1, 8, 10, 15, 17, 1 << 62])
def test_rows_of_another_size_are_refused(width: int) -> None:
    assert status(width=width) == 2
