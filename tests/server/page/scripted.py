"""A server in the form that the page talks to, with scripted replies: no model, any fault."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from markdown_it import MarkdownIt
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

PAGE = Path(__file__).parents[3] / "edgedec/server/page"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SOURCES = (None, "lookup", "recycling", "exit-18", "head", None)

CODE = """Counting words takes one line:

```python
def words(text: str) -> dict[str, int]:
    # One pass over the text.
    return {word: text.split().count(word) for word in set(text.split())}
```

| word | count |
|---|---:|
| a | 2 |
| speculative | 1 |

It is *quadratic*; `collections.Counter` is not. See [the manual](https://docs.python.org/3/).
"""
HOSTILE = """<script>document.title = "taken"</script> <img src=x onerror="document.title='taken'">

[a link](javascript:document.title='taken') ![a picture](https://example.org/track.png)
"""
STORY = "".join(f"Sentence {number} of a long story goes on here. " for number in range(1, 41))


@dataclass
class Script:
    """Faults to play, and what was asked."""

    key: str | None = None
    busy: int = 0
    """Requests to refuse with 429."""
    retry_after: int = 1
    wait_s: float = 0.0
    """Before the first token."""
    render_s: float = 0.0
    """Before Markdown is answered."""
    pause_s: float = 0.005
    """Between two tokens."""
    seen: list[dict[str, Any]] = field(default_factory=list)
    cancelled: int = 0


def pieces(text: str) -> list[str]:
    """Split a text as a tokenizer might, with nothing lost."""
    return [f"{word} " for word in text.split(" ")[:-1]] + [text.split(" ")[-1]]


def reply_to(body: dict[str, Any]) -> tuple[str, str, str]:
    """Reasoning, text and finish reason of a scripted reply."""
    asked = next(one["content"] for one in reversed(body["messages"]) if one["role"] == "user")
    if body.get("edgedec", {}).get("continue"):
        return "", " And this is the rest.", "stop"
    if "think" in asked:
        return "The user wants a thought. Here it is.", "Forty-two.", "stop"
    if "limit" in asked:
        return "", "This reply ends before its", "length"
    if "full" in asked:
        return "", "This reply fills the context.", "context"
    known = {"code": CODE, "hostile": HOSTILE, "story": STORY}
    text = next((text for word, text in known.items() if word in asked), f"You said: {asked}")
    return "", text, "stop"


class Server:
    """The routes, over one script."""

    def __init__(self, script: Script) -> None:
        self.script = script

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/", self.index),
                Mount("/page", StaticFiles(directory=PAGE)),
                Route("/v1/models", self.models),
                Route("/v1/chat/completions", self.chat, methods=["POST"]),
                Route("/edgedec/status", self.status),
                Route("/edgedec/markdown", self.markdown, methods=["POST"]),
            ],
            middleware=[Middleware(BaseHTTPMiddleware, dispatch=self.guard)],
        )

    async def guard(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        """Ask for the key outside the page's own files, and set the page's policy."""
        path = request.url.path
        needs = self.script.key is not None and path != "/" and not path.startswith("/page/")
        if needs and request.headers.get("authorization") != f"Bearer {self.script.key}":
            return refusal(401, "this server needs a key")
        response = await call_next(request)
        response.headers["Content-Security-Policy"] = POLICY
        return response

    async def index(self, request: Request) -> Response:
        return FileResponse(PAGE / "index.html")

    async def models(self, request: Request) -> Response:
        preset = {"temperature": 0.2, "top_p": 0.9, "top_k": 0, "min_p": 0.0}
        own = {"context": 2048, "preset": preset, "chat": True}
        loaded = {"id": "small-135m", "object": "model", "edgedec": {"loaded": True, **own}}
        other = {"id": "coder-1.5b", "object": "model", "edgedec": {"loaded": False, **own}}
        return JSONResponse({"object": "list", "data": [loaded, other]})

    async def status(self, request: Request) -> Response:
        model = {"name": "small-135m", "state": "ready", "context": 2048, "waiting": 0, "slots": []}
        memory = {"memory_bytes": 412_000_000, "memory_budget_bytes": 600_000_000}
        return JSONResponse({"closing": False, "running": 0, "waiting": 0, "models": [model], **memory})

    async def markdown(self, request: Request) -> Response:
        await asyncio.sleep(self.script.render_s)
        return JSONResponse({"html": rendered((await request.json())["text"])})

    async def chat(self, request: Request) -> Response:
        body = await request.json()
        self.script.seen.append(body)
        if self.script.busy:
            self.script.busy -= 1
            return refusal(
                429, "all slots are taken (try again in 1 s)", {"Retry-After": str(self.script.retry_after)}
            )
        if "refuse" in body["messages"][-1]["content"]:
            return refusal(400, "the conversation has 3,000 tokens; the context has room for 2,048")
        return StreamingResponse(self.events(body), media_type="text/event-stream")

    async def events(self, body: dict[str, Any]) -> AsyncIterator[str]:
        reasoning, text, reason = reply_to(body)
        told = [("reasoning_content", one) for one in pieces(reasoning) if one]
        told += [("content", one) for one in pieces(text) if one]
        drop = "drop" in body["messages"][-1]["content"]
        opening = {"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}
        yield event({"choices": [opening], "usage": None})
        await asyncio.sleep(self.script.wait_s)
        try:
            for index, (name, piece) in enumerate(told):
                if drop and index == 3:
                    raise ConnectionError
                token = {"text": piece, "source": SOURCES[index % len(SOURCES)]}
                choice = {"index": 0, "delta": {name: piece}, "edgedec": {"tokens": [token]}}
                yield event({"choices": [{**choice, "finish_reason": None}]})
                await asyncio.sleep(self.script.pause_s)
        except asyncio.CancelledError:
            self.script.cancelled += 1
            raise
        except ConnectionError:
            return
        own = {} if reason != "context" else {"edgedec": {"finish_reason": "context"}}
        reason = "length" if own else reason
        yield event({"choices": [{"index": 0, "delta": {}, "finish_reason": reason, **own}]})
        yield event({"choices": [], "usage": usage(len(told))})
        yield "data: [DONE]\n\n"


def usage(tokens: int) -> dict[str, Any]:
    own = {"tokens_per_second": 41.3, "tokens_per_pass": 1.84, "joules_per_token": 0.0312}
    memory = {"memory_bytes": 412_000_000, "memory_budget_bytes": 600_000_000}
    return {
        "prompt_tokens": 31,
        "completion_tokens": tokens,
        "prompt_tokens_details": {"cached_tokens": 12},
        "completion_tokens_details": {"accepted_prediction_tokens": tokens // 2},
        "edgedec": {**own, **memory, "joules_estimated": True},
    }


def event(data: dict[str, Any]) -> str:
    return f"data: {json.dumps(data)}\n\n"


def refusal(status: int, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
    return JSONResponse({"error": error}, status, headers)


def rendered(text: str) -> str:
    def code(source: str, name: str, _: str) -> str:
        try:
            return str(highlight(source, get_lexer_by_name(name), HtmlFormatter(nowrap=True)))
        except ClassNotFound:
            return ""

    return str(MarkdownIt("commonmark", {"html": False, "highlight": code}).enable("table").render(text))


@contextmanager
def serving(script: Script) -> Iterator[str]:
    """Serve on a free port of loopback; yields the address."""
    config = uvicorn.Config(Server(script).app(), port=0, log_level="critical", ws="none", lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        for _ in range(500):
            if server.started:
                break
            threading.Event().wait(0.02)
        (port,) = (socket.getsockname()[1] for one in server.servers for socket in one.sockets)
        yield f"http://127.0.0.1:{port}/"
    finally:
        server.should_exit = server.force_exit = True
        thread.join(10)
