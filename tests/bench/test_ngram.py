"""What llama.cpp's tools draft from n-grams, as the peer does it."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from edgedec.bench.sides import check_drafting_peer, ours_drafting, split_peer
from edgedec.core.errors import UsageError

PROGRAM = ours_drafting.__globals__["_PROGRAMS"] / "llama_cpp_peer.py"


@pytest.fixture(scope="module")
def peer() -> Any:
    """The peer's module, with an empty llama_cpp where there is none."""
    absent = importlib.util.find_spec("llama_cpp") is None
    if absent:
        sys.modules["llama_cpp"] = fake = ModuleType("llama_cpp")
        fake.llama_speculative = ModuleType("llama_speculative")  # type: ignore[attr-defined]
    spec = importlib.util.spec_from_file_location("llama_cpp_peer_tested", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if absent:
        del sys.modules["llama_cpp"]
    return module


def drafted(peer: Any, ids: list[int], size: int, most: int) -> list[int]:
    found: list[int] = peer.ngram_simple(np.array(ids, dtype=np.intc), size, most).tolist()
    return found


def test_tokens_after_the_latest_earlier_place(peer: Any) -> None:
    assert drafted(peer, [99, 1, 2, 7, 8, 3, 4, 1, 2], 2, 2) == [7, 8]
    assert drafted(peer, [99, 1, 2, 7, 8, 1, 2, 5, 6, 1, 2], 2, 2) == [5, 6]
    assert drafted(peer, [99, 1, 2, 7, 8, 3, 4, 1, 9], 2, 2) == []


def test_its_rules(peer: Any) -> None:
    assert drafted(peer, [1, 2, 7, 8, 3, 4, 5, 1, 2], 2, 2) == []  # never from the very first place
    assert drafted(peer, [9, 1, 2, 7, 1, 2], 2, 2) == []  # too short a text
    assert drafted(peer, [9, 9, 9, 9, 9, 1, 1, 1], 2, 3) == []  # fewer than two followed
    assert drafted(peer, [9, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2], 2, 5) == [3, 4, 5, 6, 7]


def test_defaults_are_those_of_llama_cpp(peer: Any) -> None:
    assert peer.NGRAM == (12, 48)
    ids = np.array([5, *range(100, 170), *range(100, 112)], dtype=np.intc)
    assert peer._drafter("ngram")(ids).tolist() == list(range(112, 160))
    assert peer._drafter("ngram:3:8")(ids).tolist() == list(range(112, 120))
    assert peer._drafter("off")(ids).tolist() == []


def test_names_of_peers_that_draft() -> None:
    assert split_peer("llama.cpp") == ("llama.cpp", "off")
    assert split_peer("llama.cpp-ngram:3:8") == ("llama.cpp", "ngram:3:8")
    assert split_peer("transformers-lookup") == ("transformers", "lookup")
    check_drafting_peer("llama.cpp-ngram:3:8")
    for name in (
        "llama.cpp-ngram:3",
        "llama.cpp-ngram:0:8",
        "llama.cpp-ngram:3:8:1",
        "llama.cpp:3:8",
        "lama",
    ):
        with pytest.raises(UsageError, match="--peer"):
            check_drafting_peer(name)
    with pytest.raises(UsageError, match="takes no part"):
        check_drafting_peer("openvino-genai")
