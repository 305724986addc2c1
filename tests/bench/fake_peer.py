"""A runtime that computes nothing: it notes what it is asked, and can be told to misbehave.

Environment: FAKE_LOG (file that gets a line per request), FAKE_NAME, FAKE_SECONDS (what a request "takes"),
FAKE_TROUBLE (missing | crash | killed | error | exit), FAKE_MB (memory that it takes), FAKE_CAPACITY (tokens
of context).
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

import numpy as np

VOCAB = 8
GUESS = {"bytes_read": 100, "table_bytes": 100, "passes": 4, "draft_s": 0.02}


class Peer:
    def __init__(self) -> None:
        self.trouble = os.environ.get("FAKE_TROUBLE")
        self.seconds = float(os.environ.get("FAKE_SECONDS", "1"))
        if self.trouble == "missing":
            raise ModuleNotFoundError("No module named 'llama_cpp'", name="llama_cpp")

    def open(self, **settings: Any) -> dict[str, Any]:
        self.note("open", **settings)
        self.ballast = b"x" * (int(os.environ.get("FAKE_MB", "0")) << 20)
        capacity = int(os.environ.get("FAKE_CAPACITY", "0"))
        more = {"capacity": capacity} if capacity else {}
        return {**more, "version": "fake 1.0", "isa": "none", "load_s": self.seconds, "max_pass": 64}

    def generate(self, tokens: list[int], max_tokens: int) -> dict[str, Any]:
        self.note("generate", tokens=tokens, max_tokens=max_tokens)
        print("noise on standard output, which a library may make")
        if self.trouble == "crash":
            sys.stderr.write("first line\nthe last words\n")
            sys.stderr.flush()
            os.kill(os.getpid(), signal.SIGSEGV)
        if self.trouble == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.trouble == "exit":
            os._exit(3)
        if self.trouble == "error":
            raise RuntimeError("two\nlines")
        return {"prefill_s": self.seconds, "decode_s": self.seconds, "tokens": [0] * max_tokens}

    def reply(
        self, tokens: list[int], max_tokens: int, stop: list[int], mode: str, **more: Any
    ) -> dict[str, Any]:
        """Counts from 0; every mode but "off" drafts two a pass, one of them right, in half the time.

        The mode "wrong" ends with another token than the others.
        """
        self.note("reply", tokens=tokens, max_tokens=max_tokens, stop=stop, mode=mode, **more)
        out = [*range(max_tokens - 1), max_tokens if mode == "wrong" else max_tokens - 1]
        plain = mode == "off"
        rounds = [[0, 0]] * (max_tokens - 1) if plain else [[2, 1]] * ((max_tokens - 1) // 2)
        decode_s = self.seconds if plain else self.seconds / 2
        return {
            "prefill_s": 1.0, "decode_s": decode_s, "cpu_s": 3 * decode_s, "tokens": out,
            "draft_s": 0.1, "verify_s": decode_s / 2,
            "rounds": rounds,
            "by_drafter": {} if plain else {"guess": GUESS},
            "judged": {} if plain else {"guess": [[2, 1], [0, 0]]},
            "by_depth": [] if plain else [[2, 2], [2, 1]][: len(rounds)],
            "drafters": {} if plain else {"guess": 1000}, "notices": [] if plain else ["it is a guess"],
        }  # fmt: skip

    def logits(self, tokens: list[int], path: str) -> dict[str, Any]:
        self.note("logits", tokens=tokens)
        rows = np.eye(VOCAB, dtype=np.float32)[np.array(tokens) % VOCAB] * np.float32(self.seconds)
        np.save(path, rows)
        return {}

    def prepare(self, model: str, folder: str) -> dict[str, Any]:
        self.note("prepare", model=model, folder=folder)
        return {"model": f"{model}-made"}

    def fill(self, tokens: list[int]) -> dict[str, Any]:
        self.note("fill", tokens=tokens)
        return {}

    def extend(self, tokens: list[int]) -> dict[str, Any]:
        self.note("extend", tokens=tokens)
        return {"seconds": self.seconds}

    def note(self, op: str, **arguments: Any) -> None:
        with open(os.environ["FAKE_LOG"], "a", encoding="utf-8") as log:
            log.write(json.dumps({"name": os.environ["FAKE_NAME"], "op": op, **arguments}) + "\n")
