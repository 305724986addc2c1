"""llama.cpp's backend over a model of its cache: the sequences tokens get, and what failures leave behind."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgedec.backends.head_rows import head_rows
from edgedec.backends.llama_cpp.branches import branches, sequences_of
from edgedec.backends.llama_cpp.forward import MOST_BRANCHES, LlamaCppForward
from edgedec.core.errors import BackendError, BadFileError, UnsupportedError
from edgedec.core.rows import Rows
from tests.backends.fake_llama import SPEC, FakeLlama

PROMPT = [5, 17, 3, 3, 42]
TREE, PARENTS = [7, 9, 7, 13], [-1, -1, 0, 0]


@st.composite
def trees(draw: st.DrawFn) -> list[int]:
    return [draw(st.integers(-1, node - 1)) for node in range(draw(st.integers(1, 40)))]


def ancestors(parents: list[int], node: int) -> set[int]:
    return {node} | (ancestors(parents, parents[node]) if parents[node] >= 0 else set())


@given(trees())
def test_a_sequence_is_a_path_from_a_root_to_a_leaf(parents: list[int]) -> None:
    members = sequences_of(parents)
    leaves = [node for node in range(len(parents)) if node not in parents]
    assert branches(members) == len(leaves)
    for sequence, leaf in enumerate(leaves):
        path = {node for node, sequences in enumerate(members) if sequence in sequences}
        assert path == ancestors(parents, leaf)


@given(trees())
def test_what_llama_cpp_asks_of_batches(parents: list[int]) -> None:
    """Each sequence's positions are consecutive in the order of the pass; sequences only ever part."""
    members = sequences_of(parents)
    depth = [len(ancestors(parents, node)) for node in range(len(parents))]
    for sequence in range(branches(members)):
        path = [node for node, sequences in enumerate(members) if sequence in sequences]
        assert [depth[node] for node in path] == list(range(1, len(path) + 1))
        assert all(set(members[after]) <= set(members[before]) for before, after in pairwise(path))
    assert all(sequences == sorted(set(sequences)) and sequences for sequences in members)


def test_a_chain_is_sequence_0() -> None:
    assert sequences_of([-1, 0, 1, 2]) == [[0]] * 4


def test_a_tree_with_a_fork() -> None:
    assert sequences_of([-1, -1, 0, 0, 2, 1]) == [[0, 1], [2], [1], [0], [1], [2]]


def test_a_tree_of_too_many_branches_is_refused_and_changes_nothing() -> None:
    forward = LlamaCppForward(FakeLlama(80), SPEC, 80)
    forward.extend(PROMPT)
    with pytest.raises(UnsupportedError, match="32 branches, not 33"):
        forward.extend([1] * (MOST_BRANCHES + 1), parents=[-1] * (MOST_BRANCHES + 1))
    assert forward.length == 5
    forward.extend([1] * MOST_BRANCHES, parents=[-1] * MOST_BRANCHES)
    forward.keep_path([MOST_BRANCHES - 1])
    assert forward.length == 6


def test_a_rewind_into_the_chain_that_a_tree_begins_with() -> None:
    """Token 0 belongs to the sequence of leaf 2, which is not sequence 0."""
    runner = FakeLlama(64)
    forward = LlamaCppForward(runner, SPEC, 64)
    forward.extend(PROMPT)
    forward.extend([7, 8, 9], parents=[-1, -1, 0])
    forward.rewind(6)
    assert [(cell.token, cell.sequences) for cell in runner.cells] == [(t, {0}) for t in [*PROMPT, 7]]


@pytest.mark.parametrize("rewinds", [True, False])
@pytest.mark.parametrize("before", [[], PROMPT])
def test_a_pass_that_fails_leaves_what_was_there(before: list[int], rewinds: bool) -> None:
    runner = FakeLlama(64, rewinds=rewinds)
    forward = LlamaCppForward(runner, SPEC, 64)
    if before:
        forward.extend(before)
    runner.fails = True
    for parents in [None, PARENTS] if rewinds else [None]:
        with pytest.raises(BackendError, match="told to fail"):
            forward.extend(TREE, parents=parents)
        assert forward.length == len(before)
    runner.fails = False
    after = forward.extend([1, 2], rows=Rows(last=True, full=True))
    plain = LlamaCppForward(FakeLlama(64), SPEC, 64).extend([*before, 1, 2], rows=Rows(last=True, full=True))
    assert after.logits is not None
    assert plain.logits is not None
    assert (after.logits == plain.logits).all()


def test_a_recurrent_model_computes_again_what_stays() -> None:
    runner = FakeLlama(64, rewinds=False)
    forward = LlamaCppForward(runner, SPEC, 64)
    assert not forward.caps.trees
    with pytest.raises(UnsupportedError, match="recurrent"):
        forward.extend(TREE, parents=PARENTS)
    forward.extend(PROMPT)
    forward.rewind(5)
    forward.extend([1])
    assert runner.passes == [5, 1], "nothing was taken back"
    forward.rewind(4)
    forward.rewind(3)
    forward.extend([2])
    assert runner.passes == [5, 1, 3, 1]
    forward.rewind(0)
    forward.extend([3])
    assert runner.passes == [5, 1, 3, 1, 1]
    assert [cell.token for cell in runner.cells] == [3]


def test_head_results_of_ties_and_masked_logits() -> None:
    logits = np.array([[1, 3, 3, -np.inf, 3, 0], [0, 0, 0, 0, 0, 0]], dtype=np.float32)
    rows = head_rows(logits, 4, full=False)
    assert rows.ids.tolist() == [[1, 2, 4, 0], [0, 1, 2, 3]]
    assert rows.values.tolist() == [[3, 3, 3, 1], [0, 0, 0, 0]]
    assert rows.entropy[1] == pytest.approx(np.log(6), abs=1e-6)
    assert rows.logits is None
    none = head_rows(logits[:0], 4, full=True)
    assert (none.ids.shape, none.entropy.shape) == ((0, 4), (0,))


@given(
    st.lists(st.lists(st.integers(-3, 3), min_size=9, max_size=9), min_size=1, max_size=3), st.integers(1, 12)
)
def test_head_results_are_those_of_a_whole_sort(rows: list[list[int]], k: int) -> None:
    logits = np.array(rows, dtype=np.float32)
    for found, row in zip(head_rows(logits, k, full=False).ids.tolist(), rows, strict=True):
        assert found == sorted(range(9), key=lambda id: (-row[id], id))[:k]


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_head_results_of_what_is_no_number_are_refused(wrong: float) -> None:
    logits = np.zeros((2, 8), dtype=np.float32)
    logits[1] = wrong
    with pytest.raises(BadFileError, match="not numbers"):
        head_rows(logits, 4, full=True)
