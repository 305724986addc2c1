"""What llama.cpp's tools draft from n-grams, as the peer does it."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from edgedec.bench.harness.runtimes import PROGRAMS, WITH_REPLIES, check_peers, split_mode
from edgedec.core.errors import UsageError

PROGRAM = PROGRAMS / "llama_cpp_peer.py"


@pytest.fixture(scope="module")
def peer() -> Any:
    """The peer's module, with an empty llama_cpp where there is none."""
    absent = importlib.util.find_spec("llama_cpp") is None
    if absent:
        sys.modules["llama_cpp"] = ModuleType("llama_cpp")
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
    assert (peer.NGRAM_TOKENS, peer.NGRAM_DRAFTED_TOKENS) == (12, 48)
    ids = np.array([5, *range(100, 170), *range(100, 112)], dtype=np.intc)
    assert peer.ngram_simple(ids).tolist() == list(range(112, 160))


def test_names_of_peers_that_draft() -> None:
    assert split_mode("llama.cpp") == ("llama.cpp", "off")
    assert split_mode("llama.cpp-ngram") == ("llama.cpp", "ngram")
    check_peers(["llama.cpp", "llama.cpp-ngram"], WITH_REPLIES, "cannot")
    for names, words in ((["lama"], "no such"), (["openvino-genai"], "cannot"), (["llama.cpp"] * 2, "twice")):
        with pytest.raises(UsageError, match=words):
            check_peers(names, WITH_REPLIES, "cannot")
