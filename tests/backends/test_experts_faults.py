"""Experts that cannot be read, or are damaged: a pass ends in one line, and what comes after it is right."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from edgedec.backends.onnx.model import OnnxModel
from edgedec.bundle.device_place import DevicePlace
from edgedec.bundle.manifest import Manifest
from edgedec.core.cache_config import CacheConfig
from edgedec.core.errors import BackendError
from edgedec.core.forward import Forward
from tests.fixtures.streamed import (
    EXPERTS,
    LAYERS,
    RECURRENT,
    cut,
    damaged,
    first_expert,
    sparse_bundle,
    stride,
)

TOKENS = np.random.default_rng(1).integers(0, 256, 40).tolist()
LIMIT_S = 60.0


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("experts")
    return {name: sparse_bundle(folder, name) for name in LAYERS}


def opened(bundle: Path, memory: int | None = 1) -> OnnxModel:
    """A model whose experts are on the disk; with ``memory`` of None, in memory."""
    return OnnxModel(bundle, Manifest.load(bundle), threads=2, spin=False, place=DevicePlace(memory=memory))


def last_row(forward: Forward, text: list[int]) -> bytes:
    """Logits behind a text, of which the cache may have a part already."""
    return np.asarray(forward.extend(text[forward.length :]).values).tobytes()


@pytest.mark.parametrize("name", LAYERS)
def test_a_cache_is_right_after_a_pass_that_failed(bundles: dict[str, Path], name: str) -> None:
    """It has a part of what it had before, and goes on from there."""
    expected = last_row(opened(bundles[name], None).forward(), TOKENS)
    for read in (0, 3, 20):
        model = opened(bundles[name])
        forward = model.forward()
        if read:
            forward.extend(TOKENS[:read])
        with cut(bundles[name]):
            assert model.experts is not None
            model.experts.limit(1)
            for _ in range(2):
                with pytest.raises(BackendError, match="an expert cannot be read"):
                    forward.extend(TOKENS[forward.length : 30])
        assert forward.length <= read
        assert last_row(forward, TOKENS) == expected


@pytest.mark.parametrize("name", LAYERS)
def test_a_damaged_expert_ends_the_replies_that_need_it(bundles: dict[str, Path], name: str) -> None:
    """Others in the same pass go on, but for models with recurrent states: those all end."""
    bundle, alone = bundles[name], opened(bundles[name], None)
    texts = [TOKENS[at : at + 1] for at in range(0, 12)]
    expected = [last_row(alone.forward(), text) for text in texts]
    place = first_expert(bundle, LAYERS[name] - 1)
    for expert in range(EXPERTS.count):
        with damaged(bundle, place + expert * stride(bundle) + 5):
            broken = [text for text in texts if _fails(bundle, text)]
            if not broken or broken == texts:
                continue
            well = next(text for text in texts if text not in broken)
            found = _together(bundle, broken[0], well)
            break
    else:
        raise AssertionError("every text takes the same experts")
    assert isinstance(found[0], BackendError)
    assert "an expert is damaged: verify the bundle" in str(found[0])
    if name in RECURRENT:
        assert isinstance(found[1], BackendError)
    else:
        assert found[1] == expected[texts.index(well)]


def _fails(bundle: Path, text: list[int]) -> bool:
    try:
        opened(bundle).forward().extend(text)
    except BackendError:
        return True
    return False


def _together(bundle: Path, *texts: list[int]) -> list[bytes | BackendError]:
    """The logits behind each text, all read in one pass, or errors."""
    found: list[bytes | BackendError] = [b""] * len(texts)
    barrier = threading.Barrier(len(texts))
    with opened(bundle).sequences(len(texts), CacheConfig(64), batch_tokens=64) as batch:

        def read(number: int) -> None:
            with batch.reply(number):
                barrier.wait(LIMIT_S)
                try:
                    found[number] = last_row(batch.forwards[number], texts[number])
                except BackendError as error:
                    found[number] = error

        threads = [threading.Thread(target=read, args=(number,)) for number in range(len(texts))]
        for one in threads:
            one.start()
        for one in threads:
            one.join(LIMIT_S)
    return found
