"""A device that is lost in a reply: the CPU goes on, and the tokens are those of an undisturbed run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from edgedec.backends.backend import DEFAULT_CACHE, Backend
from edgedec.backends.fake import MarkovForward
from edgedec.backends.gpu.recovering import RecoveringModel
from edgedec.core.cache_config import CacheConfig, KvType
from edgedec.core.errors import BackendError, DeviceLostError
from edgedec.core.forward import Forward
from edgedec.core.ledger import Ledger
from edgedec.core.rows import LAST_ROW, HeadRows, Rows
from edgedec.decode.engine import Engine
from edgedec.decode.speculation import Speculation
from edgedec.draft import Drafter, Lookup
from edgedec.draft.exit import ExitDrafter
from edgedec.sampling import DrawParams

PROMPT = [1, 2, 3, 1, 2, 3, 1, 2]
SAMPLED = DrawParams(temperature=0.7, seed=3)


class LosingForward(MarkovForward):
    """Loses its device in its ``at``-th call that needs it."""

    def __init__(self, at: int) -> None:
        super().__init__(max_pass=4, sharpness=1.0)
        self.left = at

    def extend(
        self, tokens: Sequence[int], *, parents: Sequence[int] | None = None, rows: Rows = LAST_ROW
    ) -> HeadRows:
        self._use()
        return super().extend(tokens, parents=parents, rows=rows)

    def peek(self, tokens: Sequence[int], **how: Any) -> HeadRows:
        self._use()
        return super().peek(tokens, **how)

    def keep_path(self, nodes: Sequence[int]) -> None:
        self._use()
        super().keep_path(nodes)

    def _use(self) -> None:
        self.left -= 1
        if self.left <= 0:
            raise DeviceLostError("the GPU Toy was lost: it did not answer for 60 seconds")


class Toy(Backend):
    """A backend over Markov's model: on a device that is lost, or ``at`` 0 on the CPU."""

    def __init__(self, at: int = 0) -> None:
        made = LosingForward(at) if at else MarkovForward(max_pass=4, sharpness=1.0)
        super().__init__(made.spec, made.caps, 1)
        self.made = made
        self.weight_bytes = 0
        self.asked = DEFAULT_CACHE

    @staticmethod
    def runtime_name() -> str:
        return "toy"

    def forward(self, cache: CacheConfig = DEFAULT_CACHE, ledger: Ledger | None = None) -> Forward:
        self.asked = cache
        return self.made


def replies(engine: Engine, params: DrawParams) -> list[list[int]]:
    """Two turns of a conversation."""
    first = [step.token for step in engine.generate(PROMPT, params, max_tokens=20, stop_ids=())]
    more = [*PROMPT, *first, 4, 5]
    return [first, [step.token for step in engine.generate(more, params, max_tokens=20, stop_ids=())]]


def engine(forward: Forward, drafts: str) -> Engine:
    drafters: dict[str, Callable[[], Drafter]] = {
        "lookup": Lookup,
        "exit": lambda: ExitDrafter(forward, forward.caps.exits[-1]),
    }
    return Engine(forward, speculation=Speculation([drafters[drafts]()]) if drafts else None)


@pytest.mark.parametrize("params", [DrawParams(), SAMPLED])
@pytest.mark.parametrize("drafts", ["", "lookup", "exit"])
@pytest.mark.parametrize("at", range(1, 40, 3))
def test_tokens_are_those_of_an_undisturbed_run(at: int, drafts: str, params: DrawParams) -> None:
    lines: list[str] = []
    model = RecoveringModel(Toy(at), Toy, lines.append)
    found = replies(engine(model.forward(), drafts), params)
    assert found == replies(engine(Toy().forward(), drafts), params)
    assert len(lines) <= 1
    for line in lines:
        assert line.startswith("note: the GPU Toy was lost")
        assert line.endswith("goes on on the CPU")


def test_a_loss_is_told_once_and_the_backend_is_the_other_one() -> None:
    lines: list[str] = []
    model = RecoveringModel(Toy(1), Toy, lines.append)
    forward = model.forward()
    with pytest.raises(DeviceLostError) as found:
        forward.extend([1, 2])
    assert found.value.replaced
    assert forward.length == 0
    assert len(lines) == 1
    forward.extend([1, 2])
    assert forward.length == 2


@pytest.mark.parametrize("kv", ["fp16", "int8", None])
def test_the_replacement_keeps_the_format_of_the_cache(kv: KvType | None) -> None:
    spare = Toy()
    forward = RecoveringModel(Toy(1), lambda: spare, lambda line: None).forward(CacheConfig(kv=kv))
    with pytest.raises(DeviceLostError):
        forward.extend([1, 2])
    assert spare.asked == CacheConfig(forward.capacity, kv, forward.caps.max_pass)


def test_other_faults_of_a_device_end_the_reply() -> None:
    class Refusing(MarkovForward):
        def extend(
            self, tokens: Sequence[int], *, parents: Sequence[int] | None = None, rows: Rows = LAST_ROW
        ) -> HeadRows:
            raise BackendError("a pass was refused")

    first = Toy()
    first.made = Refusing()
    model = RecoveringModel(first, Toy, lambda line: None)
    with pytest.raises(BackendError, match="refused"):
        list(Engine(model.forward()).generate(PROMPT, DrawParams(), max_tokens=2, stop_ids=()))


def test_nothing_is_copied_from_a_lost_device_to_its_replacement() -> None:
    model = RecoveringModel(Toy(1), Toy, lambda line: None)
    lost, other = model.forward(), model.forward()
    with pytest.raises(DeviceLostError):
        lost.extend([1, 2])
    assert other.copy_prefix(lost, 0) == 0
