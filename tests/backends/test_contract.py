"""Contract of every backend, bit for bit where it claims exactness (see ``edgedec.core.forward.Forward``)."""

from __future__ import annotations

import io

import numpy as np
import pytest

from edgedec.backends.fake import MarkovForward
from edgedec.core.errors import ContextFullError
from edgedec.core.forward import Forward
from edgedec.core.rows import ALL_ROWS, LAST_ROW, HeadRows, Rows
from tests.backends.conftest import Make
from tests.fixtures.paths import path_to

PROMPT = [5, 17, 3, 3, 42, 8, 5, 61, 29, 11]
TREE = [7, 9, 7, 13, 2, 9, 30]
PARENTS = [-1, -1, 0, 0, 2, 1, 4]
"""0 ─┬─ 2 ── 4 ── 6      two roots, a fork below the first, equal tokens in different places
   └─ 3
1 ─── 5"""
FULL = Rows(full=True)


def pick(rows: HeadRows, *indices: int) -> HeadRows:
    chosen = list(indices)
    logits = None if rows.logits is None else rows.logits[chosen]
    return HeadRows(
        rows.values[chosen], rows.ids[chosen], rows.logsumexp[chosen], rows.entropy[chosen], logits
    )


def fed(make: Make, tokens: list[int], capacity: int = 64) -> Forward:
    forward = make(capacity)
    forward.extend(tokens)
    return forward


def test_it_starts_empty_and_says_what_it_is(make: Make) -> None:
    forward = make(48)
    assert (forward.length, forward.capacity) == (0, 48)
    assert forward.spec.vocab_size > max(PROMPT)
    assert forward.caps.exact == make.exact
    assert forward.caps.max_pass >= 16
    assert set(forward.nbytes()) >= {"weights", "kv_cache"}


def test_those_with_trees_reserve_their_cache(make_trees: Make) -> None:
    forward = make_trees(48)
    assert forward.caps.trees
    int8 = make_trees.kv == "int8"
    rows = {keys: keys.head_dim + 2 * -(-keys.head_dim // 32) if int8 else keys.head_dim * 2
            for keys in forward.spec.keys}  # fmt: skip
    needed = sum(48 * keys.layers * keys.kv_heads * row * 2 for keys, row in rows.items())
    needed *= 2 if forward.contrasting else 1
    held = forward.nbytes()["kv_cache"]
    assert held == needed if forward.caps.exact else held >= needed


def test_a_prompt_in_pieces_is_the_prompt(make: Make) -> None:
    whole = make().extend(PROMPT, rows=FULL)
    for pieces in ((1,) * 10, (3, 7), (9, 1), (4, 4, 2)):
        forward, start = make(), 0
        for size in pieces:
            part = forward.extend(PROMPT[start : start + size], rows=FULL)
            assert make.same(part, pick(whole, *range(start, start + size))), (pieces, start)
            start += size
            assert forward.length == start


def test_different_tokens_give_different_rows(make: Make) -> None:
    rows = make().extend(PROMPT, rows=ALL_ROWS)
    changed = make().extend([6, *PROMPT[1:]], rows=ALL_ROWS)
    assert not any(make.same(pick(rows, i), pick(changed, i)) for i in range(len(PROMPT)))
    swapped = make().extend([*PROMPT[1::-1], *PROMPT[2:]], rows=LAST_ROW)
    assert not make.same(swapped, pick(rows, -1))


def test_rewind_and_extend_again_gives_the_same_bits(make: Make) -> None:
    forward = make()
    first = forward.extend(PROMPT, rows=FULL)
    for length in (9, 5, 1, 0):
        forward.rewind(length)
        assert forward.length == length
        assert make.same(forward.extend(PROMPT[length:], rows=FULL), pick(first, *range(length, 10)))
    forward.rewind(4)
    forward.extend([50, 51, 52])
    forward.rewind(4)
    assert make.same(forward.extend(PROMPT[4:], rows=FULL), pick(first, *range(4, 10)))


def test_rewind_beyond_what_is_there_is_refused(make: Make) -> None:
    forward = fed(make, PROMPT)
    for wrong in (-1, 11):
        with pytest.raises(ValueError, match="rewind"):
            forward.rewind(wrong)
    assert forward.length == 10


def test_tree_rows_equal_plain_rows_along_the_path(make_trees: Make) -> None:
    forward = fed(make_trees, PROMPT)
    rows = forward.extend(TREE, parents=PARENTS, rows=FULL)
    assert forward.length == 17
    for node in range(len(TREE)):
        plain = fed(make_trees, PROMPT)
        expected = plain.extend([TREE[i] for i in path_to(node, PARENTS)], rows=Rows(last=True, full=True))
        assert make_trees.same(pick(rows, node), expected)


def test_a_tree_on_an_empty_cache(make_trees: Make) -> None:
    rows = make_trees().extend(TREE, parents=PARENTS)
    assert make_trees.same(rows, make_trees().extend([TREE[i] for i in path_to(6, PARENTS)]))


def test_keep_path_then_extend_equals_plain(make_trees: Make) -> None:
    for path in ([], [0], [1], [1, 5], [0, 3], [0, 2, 4, 6], [0, 2]):
        forward = fed(make_trees, PROMPT)
        forward.extend(TREE, parents=PARENTS)
        forward.keep_path(path)
        assert forward.length == 10 + len(path)
        plain = fed(make_trees, PROMPT + [TREE[i] for i in path])
        for token in (21, 4):
            same = make_trees.same(forward.extend([token], rows=FULL), plain.extend([token], rows=FULL))
            assert same, (path, token)
        again = forward.extend(TREE, parents=PARENTS, rows=FULL)
        assert make_trees.same(again, plain.extend(TREE, parents=PARENTS, rows=FULL)), path


def test_keep_a_beginning_of_a_chain(make: Make) -> None:
    forward = make()
    forward.extend(PROMPT)
    forward.keep_path(range(6))
    assert forward.length == 6
    assert make.same(forward.extend([1, 2], rows=FULL), fed(make, PROMPT[:6]).extend([1, 2], rows=FULL))


def test_a_tree_must_be_settled_before_the_next_pass(make_trees: Make) -> None:
    forward = fed(make_trees, PROMPT)
    forward.extend(TREE, parents=PARENTS)
    with pytest.raises(ValueError, match="settle"):
        forward.extend([1])
    assert forward.length == 17
    forward.rewind(10)
    assert make_trees.same(forward.extend([1]), fed(make_trees, PROMPT).extend([1]))


def test_what_is_no_root_path_is_refused(make_trees: Make) -> None:
    forward = fed(make_trees, PROMPT)
    for nodes in ([2], [0, 1], [0, 4], [2, 0], [7], [-1], [0, 0]):
        forward.extend(TREE, parents=PARENTS)
        with pytest.raises(ValueError, match="root path"):
            pytest.fail(f"{nodes} is kept: {forward.keep_path(nodes)}")
        forward.keep_path([0, 3])
        assert forward.length == 12, nodes
        forward.rewind(10)


def test_what_does_not_fit_is_refused_and_changes_nothing(make: Make) -> None:
    forward = fed(make, PROMPT, capacity=12)
    with pytest.raises(ContextFullError, match=r"3 .* 12 .* 10"):
        forward.extend([1, 2, 3])
    with pytest.raises(ContextFullError):
        forward.extend(TREE, parents=PARENTS)
    assert forward.length == 10
    last = forward.extend([1, 2])
    assert make.same(last, make().extend([*PROMPT, 1, 2]))
    with pytest.raises(ContextFullError):
        forward.extend([3])


MALFORMED: list[tuple[list[int], list[int] | None]] = [
    ([], None), ([], []), ([1, 2], [-1]), ([1, 2], [-1, 1]), ([1, 2], [0, -1]), ([1], [-2]),
    ([-1], None), ([1 << 30], None), ([1, 10**12], None),
]  # fmt: skip


def test_malformed_passes_change_nothing(make: Make) -> None:
    forward, expected = fed(make, PROMPT), fed(make, PROMPT).extend([1])
    for tokens, parents in MALFORMED:
        with pytest.raises(ValueError, match=r"token|parent"):
            pytest.fail(f"{tokens}, {parents}: {forward.extend(tokens, parents=parents)}")
        assert forward.length == 10, (tokens, parents)
        assert make.same(forward.extend([1]), expected), (tokens, parents)
        forward.rewind(10)


def test_rows_outside_the_pass_are_refused(make: Make) -> None:
    forward = make()
    for indices in ((10,), (-1,), (0, 99)):
        with pytest.raises(ValueError, match="rows"):
            pytest.fail(f"{indices}: {forward.extend(PROMPT, rows=Rows(indices=indices))}")
        assert forward.length == 0, indices


def test_a_pass_longer_than_max_pass_is_refused(make: Make) -> None:
    forward = make()
    with pytest.raises(ValueError, match="at most"):
        forward.extend([1] * (forward.caps.max_pass + 1))
    assert forward.length == 0


def test_rows_select(make: Make) -> None:
    everything = make().extend(PROMPT, rows=FULL)
    assert make.same(make().extend(PROMPT, rows=Rows(last=True, full=True)), pick(everything, 9))
    for indices in [(0,), (3, 1), (9, 0, 4), (2, 2)]:
        assert make.same(
            make().extend(PROMPT, rows=Rows(indices=indices, full=True)), pick(everything, *indices)
        )
    forward = make()
    none = forward.extend(PROMPT[:5], rows=Rows(indices=()))
    assert len(none) == 0
    assert none.logits is None
    assert make.same(forward.extend(PROMPT[5:], rows=Rows(last=True, full=True)), pick(everything, 9))


def test_results_belong_to_the_caller(make: Make) -> None:
    forward = make()
    first = forward.extend([1], rows=FULL)
    kept = pick(first, 0)  # indexing with a list copies
    forward.extend([2], rows=FULL)
    forward.extend([3])
    assert make.same(first, kept)


def test_logits_agree_with_top_k_logsumexp_and_entropy(make: Make) -> None:
    rows = make().extend(PROMPT, rows=FULL)
    assert rows.logits is not None
    without = make().extend(PROMPT, rows=ALL_ROWS)
    assert without.logits is None
    assert make.same(without, HeadRows(rows.values, rows.ids, rows.logsumexp, rows.entropy))
    vocabulary = np.arange(rows.logits.shape[1])
    assert vocabulary.size > rows.ids.shape[1]
    for row in range(len(PROMPT)):
        logits = rows.logits[row]
        order = np.lexsort((vocabulary, -logits))[: rows.ids.shape[1]]
        assert rows.ids[row].tolist() == order.tolist()
        assert rows.values[row].tolist() == logits[order].tolist()
        exact = logits.astype(np.float64)
        logsumexp = np.logaddexp.reduce(exact)
        p = np.exp(exact - logsumexp)
        assert rows.logsumexp[row] == pytest.approx(logsumexp, abs=1e-5)
        assert rows.entropy[row] == pytest.approx(logsumexp - (p * exact).sum(), abs=1e-4)


def test_dtypes_and_shapes(make: Make) -> None:
    forward = make()
    rows = forward.extend([1, 2, 3], rows=FULL)
    k, vocabulary = forward.spec.head_k, forward.spec.vocab_size
    assert (rows.values.dtype, rows.values.shape) == (np.float32, (3, k))
    assert (rows.ids.dtype, rows.ids.shape) == (np.int32, (3, k))
    assert (rows.logsumexp.dtype, rows.logsumexp.shape) == (np.float32, (3,))
    assert (rows.entropy.dtype, rows.entropy.shape) == (np.float32, (3,))
    assert rows.logits is not None
    assert (rows.logits.dtype, rows.logits.shape) == (np.float32, (3, vocabulary))


def test_a_cache_that_is_portable_goes_on_elsewhere(make: Make) -> None:
    forward, sink = fed(make, PROMPT), io.BytesIO()
    if (portable := forward.portable) is None:
        return
    portable.write_cache(sink, 9)
    assert len(sink.getvalue()) == portable.cache_bytes(9)
    other = make(48)
    assert other.portable is not None
    assert other.portable.cache_layout == portable.cache_layout
    other.portable.read_cache(io.BytesIO(sink.getvalue()), 9)
    last = make().extend(PROMPT, rows=Rows(last=True, full=True))
    assert make.same(other.extend(PROMPT[9:], rows=FULL), last)


def test_a_copied_prefix_is_the_prefix_computed(make: Make) -> None:
    source, forward = fed(make, PROMPT), fed(make, PROMPT)
    if (copying := forward.copying) is None:
        return
    for length in (7, 10, 1, 0):
        forward.extend([1, 2])
        assert copying.copy_prefix(source, length) == forward.length == length
        expected = fed(make, PROMPT[:length]) if length else make()
        assert make.same(forward.extend([1, 2], rows=FULL), expected.extend([1, 2], rows=FULL))
    assert copying.copy_prefix(source, 11) == forward.length == 0
    source.rewind(5)
    assert copying.copy_prefix(source, 5) == 5
    for wrong in (forward, MarkovForward(seed=9)):
        with pytest.raises(ValueError, match="another cache"):
            copying.copy_prefix(wrong, 3)
    assert forward.length == 5


def test_a_prefix_is_copied_beside_an_open_tree(make_trees: Make) -> None:
    """Its first tokens are in order, whatever hangs below them."""
    source, forward = fed(make_trees, PROMPT), make_trees()
    if (copying := forward.copying) is None:
        return
    source.extend([4, *TREE], parents=[-1, 0, 0, 1, 1, 3, 2, 5])
    assert copying.copy_prefix(source, 11) == 11
    expected = fed(make_trees, [*PROMPT, 4])
    assert make_trees.same(forward.extend([9], rows=FULL), expected.extend([9], rows=FULL))
    assert copying.copy_prefix(source, 14) == 0
    source.keep_path([0])
    assert copying.copy_prefix(source, 11) == 11


def test_a_cache_that_evicts_counts_on(make: Make) -> None:
    forward = fed(make, PROMPT)
    if (evicting := forward.evicting) is None:
        return
    assert (evicting.resident, evicting.evicted) == (10, range(0))
    evicting.evict(2, 3)
    assert (forward.length, evicting.resident, evicting.evicted) == (10, 7, range(2, 5))
    forward.extend([1])
    assert forward.length == 11


def test_attention_feeds_its_tokens(make: Make) -> None:
    forward = fed(make, PROMPT)
    if (attending := forward.attending) is None:
        return
    spec = forward.spec
    assert attending.attention([1, 2]).shape == (spec.n_layers, spec.n_kv_heads, 12)
    assert forward.length == 12
    assert make.same(forward.extend([3], rows=FULL), fed(make, [*PROMPT, 1, 2]).extend([3], rows=FULL))
    evicting = forward.evicting
    assert evicting is not None
    evicting.select(2, 5, np.full((spec.n_layers, spec.n_kv_heads, 1), 3))
    assert (forward.length, evicting.resident, evicting.evicted) == (13, 11, range(2, 5))


def test_random_histories_of_every_verb(make: Make) -> None:
    """100 random chains, trees, rewinds and kept paths; the truth is the list of tokens that remain."""
    rng = np.random.default_rng(5)
    forward = make(64)
    truth: list[int] = []
    for _ in range(100):
        if len(truth) > 40 or rng.random() < 0.2:
            truth = truth[: rng.integers(0, len(truth) + 1)]
            forward.rewind(len(truth))
        size = int(rng.integers(1, 9))
        tokens = rng.integers(0, 90, size).tolist()
        if rng.random() < 0.5 or not forward.caps.trees:
            forward.extend(tokens, rows=Rows(indices=()))
            truth += tokens
        else:
            parents = [int(rng.integers(-1, i)) for i in range(size)]
            forward.extend(tokens, parents=parents)
            path = path_to(int(rng.integers(-1, size)), parents)
            forward.keep_path(path)
            truth += [tokens[i] for i in path]
        assert forward.length == len(truth)
    assert make.same(forward.extend([1, 2], rows=FULL), fed(make, truth).extend([1, 2], rows=FULL))
