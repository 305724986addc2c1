"""The drafter of a trained head, over a head that knows the target: it must be asked the right things."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgedec.backends.fake import MarkovForward
from edgedec.core.ledger import Ledger
from edgedec.core.rows import LAST_ROW, FloatArray, HeadRows, Rows
from edgedec.core_lib.layer_drafters import DraftLayerSizes, HeadPass, layer_limits
from edgedec.decode.engine import Engine, PassRecord
from edgedec.decode.speculation import Speculation
from edgedec.draft.head import HeadDrafter
from edgedec.sampling import DrawParams
from tests.decode.test_engine import EVERY_KIND, GREEDY, tokens

VOCAB = 24
SHARP = 2000.0
"""With such logits the model is sure of nearly every token."""
WAITING, _ = layer_limits()
Path = tuple[int, ...]


class Recording(MarkovForward):
    """Knows which text each of its hidden states belongs to."""

    def __init__(self, **options: float) -> None:
        super().__init__(**options)  # type: ignore[arg-type]
        self.texts: dict[bytes, Path] = {}
        self._paths: dict[int, Path] = {self._seed: ()}

    def extend(
        self, tokens: Sequence[int], *, parents: Sequence[int] | None = None, rows: Rows = LAST_ROW
    ) -> HeadRows:
        start = self.resident
        found = super().extend(tokens, parents=parents, rows=rows)
        for node, token in enumerate(tokens):
            above = start - 1 if parents is not None and parents[node] < 0 else start + node - 1
            if parents is not None and parents[node] >= 0:
                above = start + parents[node]
            before = self._paths[self._slots[above] if above >= 0 else self._seed]
            self._paths[self._slots[start + node]] = (*before, token)
            if found.hidden is not None:
                self.texts[found.hidden[node].tobytes()] = (*before, token)
        return found


class KnowingHead:
    """Predicts as the target does, and fails where a hidden state, token or parent does not belong."""

    def __init__(
        self, target: Recording, *, capacity: int = 400, max_pass: int = 128, **model: float
    ) -> None:
        self.sizes = DraftLayerSizes(3, 1, capacity, max_pass)
        self.ledger = Ledger()
        self._target, self._model = target, model
        self._texts: list[Path] = []
        self._slots: list[Path] = []
        self.fed: list[tuple[int, int]] = []
        """Of each pass: committed tokens, and drafted ones."""

    @property
    def length(self) -> int:
        return len(self._slots)

    def rewind(self, length: int) -> None:
        assert 0 <= length <= len(self._slots)
        del self._slots[length:]

    def nbytes(self) -> dict[str, int]:
        return {"weights": 1000, "kv_cache": 100}

    def step(
        self,
        tokens: Sequence[int],
        *,
        taps: FloatArray | None = None,
        states: FloatArray | None = None,
        parents: Sequence[int] | None = None,
        rows: Sequence[int] = (),
    ) -> HeadPass:
        read = [] if taps is None else [self._target.texts[tap.tobytes()] for tap in taps]
        drafted = [] if states is None else [self._texts[int(state[0])] for state in states]
        assert len(tokens) == len(read) + len(drafted) <= self.sizes.longest
        texts = [(*before, token) for before, token in zip([*read, *drafted], tokens, strict=True)]
        start = len(self._slots)
        for node in range(len(read), len(tokens)):
            parent = parents[node] if parents is not None else node - 1
            above = texts[parent] if parent >= 0 else self._slots[start - 1]
            assert above == texts[node][:-1]
        for above, text in zip([*self._slots[-1:], *texts], texts[: len(read)], strict=False):
            assert text[: len(above)] == above
        self._slots += texts
        assert len(self._slots) <= self.sizes.capacity
        self.fed.append((len(read), len(drafted)))
        out = np.arange(len(self._texts), len(self._texts) + len(texts), dtype=np.float32)[:, None]
        self._texts += texts
        return HeadPass(self._rows([texts[row] for row in rows]), out)

    def _rows(self, texts: list[Path]) -> HeadRows:
        found = [MarkovForward(max_pass=2000, capacity=2000, **self._model).extend(text) for text in texts]  # type: ignore[arg-type]
        if not found:
            few = np.zeros((0, 1), np.float32)
            return HeadRows(few, few.astype(np.int32), few[:, 0], few[:, 0])
        names = ("values", "ids", "logsumexp", "entropy")
        return HeadRows(*(np.concatenate([getattr(one, name) for one in found]) for name in names))


class Setting:
    """A target, its head, and an engine whose passes are recorded."""

    def __init__(self, *, head: dict[str, int] | None = None, limit: int = 6, **model: float) -> None:
        self.target = Recording(**model)
        sharp = {"sharpness": model["sharpness"]} if "sharpness" in model else {}
        self.head = KnowingHead(self.target, **(head or {}), **sharp)
        self.drafter = HeadDrafter(self.head, (0, 1, 2))  # type: ignore[arg-type]
        self.passes: list[PassRecord] = []
        self.failures: list[str] = []
        speculation = Speculation([self.drafter], limit=limit, notice=self.failures.append)
        self.engine = Engine(self.target, speculation=speculation, observe=self.passes.append)

    def reply(self, prompt: Sequence[int], params: DrawParams = GREEDY, n: int = 12) -> list[int]:
        found = tokens(self.engine, prompt, params, n)
        assert self.failures == []
        return found


def plain(prompt: Sequence[int], params: DrawParams, n: int, **model: float) -> list[int]:
    return tokens(Engine(MarkovForward(**model)), prompt, params, n)  # type: ignore[arg-type]


@pytest.mark.parametrize("params", EVERY_KIND)
@pytest.mark.parametrize("sharpness", [4.0, SHARP])
def test_replies_are_those_without_drafts(params: DrawParams, sharpness: float) -> None:
    prompt = [1, 2, 3, 4, 5]
    setting = Setting(sharpness=sharpness)
    assert setting.reply(prompt, params, 30) == plain(prompt, params, 30, sharpness=sharpness)
    assert len(setting.passes) < 25  # and it is of use


def test_a_head_that_is_sure_and_right_drafts_a_chain_that_is_accepted_whole() -> None:
    setting = Setting(sharpness=SHARP, limit=4)
    setting.reply([1, 2, 3], n=16)
    # One pass over the prompt gives a token; each of the others gives its five.
    assert [len(record.path) for record in setting.passes] == [0, 4, 4, 4]
    drafts = [drafted for _, drafted in setting.head.fed if drafted]
    assert set(drafts) == {1}


def test_nodes_that_are_close_share_a_pass_of_the_head() -> None:
    setting = Setting(sharpness=2.0, limit=12)
    setting.reply([1, 2, 3], n=20)
    assert max(drafted for _, drafted in setting.head.fed) > 1
    trees = [record.tree for record in setting.passes if record.tree]
    assert any(len(tree.children(-1)) > 1 for tree in trees)
    assert any(max(tree.depths()) > 1 for tree in trees)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000))
def test_it_stays_in_step_over_turns_that_keep_change_and_leave_off(seed: int) -> None:
    generator, params = random.Random(seed), EVERY_KIND[seed % len(EVERY_KIND)]
    small = {"capacity": generator.choice([60, 400]), "max_pass": generator.choice([24, 128])}
    setting = Setting(head=small, max_pass=generator.randint(7, 40), sharpness=generator.choice([3.0, SHARP]))
    prompt = [1, 2, 3]
    for _ in range(5):
        reply = setting.engine.generate(prompt, params, max_tokens=14, stop_ids=())
        for _ in range(generator.randint(1, 16)):
            next(reply, None)
        reply.close()
        kept = setting.engine.committed[: generator.randint(1, len(setting.engine.committed))]
        prompt = [*kept, *(generator.randrange(VOCAB) for _ in range(generator.randint(0, 30)))]
    sharpness = setting.target._sharpness
    assert setting.reply(prompt, params, 9) == plain(prompt, params, 9, sharpness=sharpness)


def test_it_reads_the_end_of_a_long_text_only() -> None:
    setting = Setting(sharpness=SHARP, capacity=1000, max_pass=128)
    setting.reply([index % VOCAB for index in range(500)], n=8)
    assert setting.head.fed[0] == (WAITING, 0)
    assert sum(committed for committed, _ in setting.head.fed) <= WAITING + 8
    assert len(setting.passes) < 4 + 8


def test_a_turn_that_goes_on_feeds_the_new_tokens_only() -> None:
    setting = Setting(sharpness=SHARP)
    said = [1, 2, 3, 4, 5, 6, 7, 8, *setting.reply([1, 2, 3, 4, 5, 6, 7, 8], n=10)]
    before = len(setting.head.fed)
    setting.reply([*said, 9, 10], n=4)
    assert setting.head.fed[before][0] <= 2 + 5  # those, and the tokens of the last round


def test_after_a_restored_session_it_begins_with_the_tokens_that_follow() -> None:
    setting = Setting(sharpness=SHARP)
    text = [1, 2, 3, 4, 5]
    setting.target.extend(text)
    setting.engine.adopt(text)
    params = GREEDY
    assert setting.reply([*text, 6, 7, 8], params) == plain([*text, 6, 7, 8], params, 12, sharpness=SHARP)
    assert setting.head.fed[0] == (3, 0)
    assert any(record.path for record in setting.passes)


def test_without_the_last_hidden_states_it_drafts_nothing() -> None:
    target = Recording()
    head = KnowingHead(target)
    drafter = HeadDrafter(head, (0, 1, 2))  # type: ignore[arg-type]
    drafter.begin([1, 2, 3], 0)
    assert len(drafter.propose(8)) == 0
    hidden = target.extend([1, 2, 3], rows=Rows(taps=(0, 1, 2))).hidden
    assert hidden is not None
    drafter.read(0, hidden[:1])
    assert len(drafter.propose(8)) == 0
    drafter.read(1, hidden[1:2])
    first = drafter.propose(8)
    assert len(first)
    assert drafter.propose(8) == first
    assert len(drafter.propose(0)) == 0


def test_its_memory_is_leased() -> None:
    head = KnowingHead(Recording())
    drafter = HeadDrafter(head, (0, 1, 2))  # type: ignore[arg-type]
    assert head.ledger.by_name() == {"taps": WAITING * 3 * 4}
    assert drafter.nbytes() >= 1100 + WAITING * 3 * 4
    del drafter
    assert head.ledger.by_name() == {}


class Interrupted(KnowingHead):
    """Is interrupted in the pass behind ``passes``, once; ``after``: when its tokens are in the cache."""

    def __init__(self, target: Recording, passes: int, *, after: bool) -> None:
        super().__init__(target, sharpness=2.0)
        self._left, self._after = passes, after

    def step(self, *tokens: Any, **more: Any) -> HeadPass:
        self._left -= 1
        found = super().step(*tokens, **more) if self._left != -1 or self._after else None
        if found is None or self._left == -1:
            raise KeyboardInterrupt
        return found


@pytest.mark.parametrize("after", [True, False])
@pytest.mark.parametrize("passes", range(2))
def test_an_interrupted_pass_leaves_nothing_behind(passes: int, *, after: bool) -> None:
    target = Recording(sharpness=2.0)
    hidden = target.extend([1, 2, 3, 4], rows=Rows(taps=(0, 1, 2))).hidden
    assert hidden is not None
    drafts = []
    for head in (Interrupted(target, passes, after=after), KnowingHead(target, sharpness=2.0)):
        drafter = HeadDrafter(head, (0, 1, 2))  # type: ignore[arg-type]
        drafter.begin([1, 2, 3, 4], 0)
        drafter.read(0, hidden[:3])
        if isinstance(head, Interrupted):
            with pytest.raises(KeyboardInterrupt):
                drafter.propose(8)
        drafts.append(drafter.propose(8))
        assert head.length == 3
    assert drafts[0] == drafts[1]
