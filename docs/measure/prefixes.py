"""Seconds to the first token of a long prompt: ``python -P -m docs.measure.prefixes MODEL [CHARACTERS]``.

A server of its own keeps prefixes in a new folder. The prompt, source of the standard library, is read once.
Then the last message changes, in memory and after a restart.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from edgedec.disk.home import default_home

CHARACTERS, MOST_CONTEXT = 102_000, 32_768
FIRST, CHANGED, OTHER = "Explain the second function.", "Name three functions.", "Which one is missing?"
DEADLINE_S = 3600


@contextmanager
def server(home: Path, model: str, context: int) -> Iterator[str]:
    """Serve a model, with a store in ``home``; yield the address."""
    options = ("--port", "0", "--parallel", "1", "--draft", "off", "--prefixes", "4GB")
    bounds = ("--context", str(context), "--timeout", str(DEADLINE_S))
    command = [sys.executable, "-P", "-m", "edgedec", "serve", model, *options, *bounds]
    environment = os.environ | {"EDGEDEC_HOME": str(home)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = None
        for line in process.stdout:
            if found := re.search(r"http://[\d.:]+", line):
                break
        try:
            yield found[0] if found else ""
        finally:
            process.terminate()


def ask(address: str, source: str, last: str) -> tuple[float, int, int]:
    """Return the seconds to the first token, the prompt's tokens, and those that were not computed."""
    said = (("system", source), ("user", "What does the first class do?"), ("assistant", "It runs calls."))
    messages = [{"role": role, "content": text} for role, text in (*said, ("user", last))]
    body = {"messages": messages, "max_tokens": 8, "temperature": 0, "stream": True}
    body["stream_options"] = {"include_usage": True}
    first, usage, begin = 0.0, {}, time.perf_counter()
    with httpx.stream("POST", f"{address}/v1/chat/completions", json=body, timeout=DEADLINE_S) as answer:
        if answer.is_error:
            sys.exit(answer.read().decode())
        for line in answer.iter_lines():
            if line.startswith("data: {"):
                chunk = json.loads(line.removeprefix("data: "))
                usage = chunk.get("usage") or usage
                if not first and any(one["delta"].get("content") for one in chunk["choices"]):
                    first = time.perf_counter() - begin
    return first, usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]


def tell(name: str, found: tuple[float, int, int]) -> None:
    load = os.getloadavg()[0]
    print(f"{name}: {found[0]:.2f} s, {found[1]} tokens, {found[2]} not computed, load {load:.1f}")  # noqa: T201


def main(model: str, characters: int = CHARACTERS) -> None:
    files = sorted(Path(asyncio.__file__).parent.glob("*.py"))
    context = min(MOST_CONTEXT, characters // 2)
    source = "".join(path.read_text(encoding="utf-8") for path in files)[:characters]
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        for name in ("models", "drafters"):
            if (default_home() / name).exists():
                (home / name).symlink_to(default_home() / name)
        with server(home, model, context) as address:
            tell("cold", ask(address, source, FIRST))
            tell("last message changed, in memory", ask(address, source, CHANGED))
        with server(home, model, context) as address:
            tell("after a restart", ask(address, source, FIRST))
        with server(home, model, context) as address:
            tell("after a restart, last message changed", ask(address, source, OTHER))
        kept = sum(path.stat().st_size for path in (home / "prefixes").rglob("*") if path.is_file())
        print(f"on the disk: {kept / 1e6:.0f} MB")  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
