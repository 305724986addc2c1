"""The examples of README and guide: how each one is run, or the reason why it is not."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from tests.conftest import ROOT

FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LANGUAGES = ("sh", "python")
"""Of other blocks, those whose first line begins with ``$ `` show a command and its output."""


def guide(page: str) -> str:
    return f"docs/guide/{page}.md"


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of a page that a reader may run."""

    page: str
    language: str
    text: str

    @property
    def script(self) -> str:
        """The commands alone, without the output shown below them."""
        if self.language == "python" and "import edgedec" not in self.text:
            return "import edgedec\n" + self.text  # the first block of a page has that line for all
        if self.language:
            return self.text
        return "".join(line[2:] for line in self.text.splitlines(keepends=True) if line.startswith("$ "))


@dataclass(frozen=True, slots=True)
class Example:
    """How to run the block of ``page`` that contains ``part``."""

    page: str
    part: str
    stdin: str = ""
    prints: str = r"\w"
    """A regular expression that must be found in standard output."""
    files: tuple[str, ...] = ()
    """Names in ``examples_machine.FILES``: made before the block runs."""
    models: tuple[str, ...] = ()
    """Models that earlier examples did not fetch."""
    needs: str = ""
    """A Python package that the example is about; without it the example is left out."""
    variables: tuple[tuple[str, str], ...] = ()
    hub: bool = False
    """Whether it downloads from the model hub, which is out of reach on some machines."""
    left_out: str = ""
    """Why the block is never run."""


ADAPTER = "needs an adapter of a large model; tests/api and tests/export have small ones"
QWEN = ("qwen2.5-coder-1.5b",)
PAIR = (*QWEN, "qwen2.5-coder-0.5b")
README = "README.md"
GIGABYTES = "fetches gigabytes from the model hub; tests/models/test_catalogue_pull.py pulls from a server"
SERVER = "serves until it is interrupted; tests/cli/test_serve.py and tests/server have such servers"
APP = "fetches 200 MB and needs tools of Android; tests/android/test_build.py builds what it can without"
GPU = "needs a GPU; tests/gpu and tests/cli/test_gpu.py do with a software adapter"
STUDY = "takes minutes to hours; tests/bench runs every study with tiny models"

EXAMPLES = (
    Example(README, "pip install . &&", stdin="Why is the sky blue?\n", prints=r"(?i)\b(sky|blue|light)\b"),
    Example(
        README,
        "python -m pytest",
        # The whole suite takes minutes and runs elsewhere; here the command and its environment count.
        variables=(("PYTEST_ADDOPTS", "-q tests/core tests/sampling"),),
        prints=r"\d+ passed",
    ),
    Example(README, "--session talk", stdin="Say hello.\n/stats\n", models=QWEN),
    Example(README, "git diff | edgedec generate", models=QWEN, files=("a change",)),
    Example(README, "edgedec list --all", prints="(?s)qwen3-0.6b.*Apache-2.0"),
    Example(README, "edgedec pull hf:", hub=True),
    Example(README, "import edgedec", prints=r"\w+ \w+"),
    Example(README, "edgedec serve", left_out=SERVER),
    Example(README, "edgedec export model.gguf", stdin="Hello\n", files=("model.gguf",)),
    Example(README, "--peer llama.cpp", files=("model.gguf",), needs="llama_cpp", prints="llama.cpp"),
    Example(README, "edgedec clean", prints="qwen2.5-coder-0.5b"),
    Example(
        guide("accuracy"),
        "cmake",
        left_out="needs a cross compiler; tests/kernels/test_arm.py builds the same",
    ),
    Example(guide("accuracy"), "bench accuracy --input", left_out=STUDY),
    Example(guide("accuracy"), "--task quality", left_out=STUDY),
    Example(guide("accuracy"), "--task structured", left_out=STUDY),
    Example(guide("vectors"), "--out vectors.npy", files=("my-encoder",), prints='"embedding": '),
    Example(guide("vectors"), "open_encoder", prints=r"\(2, 64\)"),
    Example(guide("batching"), "--batch 8", files=("questions.txt",), prints=r"\w+ \w+"),
    Example(guide("batching"), "bench batch", left_out=STUDY),
    Example(guide("chat"), "printf", stdin="Say hello.\n", models=QWEN, prints=r"\w+.*\n\W*\w+"),
    Example(guide("chat"), "--mcp servers.json", left_out="starts servers of a reader's own"),
    Example(guide("drafting"), "List the even numbers", prints=r"\b18\b[^{]*\{"),
    Example(guide("drafting"), "edgedec chat", stdin="Say hello.\n", models=QWEN, prints="can draft"),
    Example(guide("drafting"), "$ edgedec check", models=QWEN, prints="verdict +can draft"),
    Example(
        guide("drafting"),
        "draft tables",
        left_out="takes minutes to hours; tests/cli/test_draft.py, test_draft_trim.py have tiny models",
    ),
    Example(guide("drafting"), "draft import", left_out=GIGABYTES),
    Example(guide("drafting"), "--draft auto,exit", models=("gemma3-270m",)),
    Example(guide("drafting"), "class Bigrams", prints=r"calm(?s:.*)'proposed': [1-9]"),
    Example(guide("drafting"), "bench drafts", left_out=STUDY),
    Example(guide("energy"), "objective=", left_out="needs a meter; tests/costs/test_pass_energy.py has one"),
    Example(guide("serving"), "serve qwen2.5-coder-1.5b", left_out=SERVER),
    Example(guide("serving"), "from openai import", left_out=SERVER),
    Example(guide("serving"), "--mcp servers.json", left_out="starts servers of a reader's own"),
    Example(guide("serving"), "ANTHROPIC_BASE_URL", left_out="needs a server and Claude Code"),
    Example(guide("serving"), "OLLAMA_HOST", left_out=SERVER),
    Example(guide("serving"), "--key-file", left_out=SERVER),
    Example(guide("serving"), "--prefixes", left_out=SERVER),
    Example(guide("structured"), "batch --input", files=("questions.txt",), prints=r'"colour": ?"\w+"'),
    Example(guide("structured"), "BaseModel", needs="pydantic", prints=r"\w+ \w+"),
    Example(guide("structured"), "unbiased:regex", prints="yes|no"),
    Example(guide("sparse"), "lfm2-8b-a1b", left_out=GIGABYTES),
    Example(guide("adapters"), "--lora adapter.gguf -p", left_out=ADAPTER),
    Example(guide("adapters"), "edgedec export", left_out=ADAPTER),
    Example(guide("switching"), "--draft auto", stdin="Say hello.\n", models=PAIR),
    Example(guide("switching"), "--trace", stdin="Say hello.\n", models=PAIR),
    Example(guide("switching"), "bench switch", left_out=STUDY),
    Example(guide("switching"), "hand_over_to", left_out="needs a server; tests/remote has one"),
    Example(guide("training"), "pip install '.[train]'", left_out="it takes an hour"),
    Example(guide("training"), "--from smollm2-135m", left_out="it takes hours"),
    Example(
        guide("exporting"),
        "export model.gguf",
        stdin="Hello\n",
        files=("model.gguf", "Qwen3-0.6B", "book.txt"),
    ),
    Example(guide("phones"), "--for android", models=("smollm2-135m", *QWEN), stdin="Hello\n"),
    Example(guide("phones"), "push phone", left_out="needs a phone; tests/cli/test_push.py pretends one"),
    Example(guide("phones"), "sudo apt install adb", left_out=APP),
    Example(guide("phones"), "http.server", left_out="serves until it is interrupted"),
    Example(guide("exporting"), "[optimum]", left_out="installs torch; tests/export/test_optimum.py does it"),
    Example(guide("exporting"), "[gguf]", left_out="builds llama.cpp; tests/integration runs such models"),
    Example(guide("exporting"), "--for android", prints="sends it to a phone"),
    Example(guide("exporting"), "edgedec draft export -m", left_out="needs a trained head"),
    Example(guide("exporting"), "edgedec draft export mtp", left_out=GIGABYTES),
    Example(guide("web"), "--for web", left_out="serves until it is interrupted; tests/web does it"),
    Example(guide("phones"), "--for npu", left_out="needs an NPU; tests/cli/test_npu.py does without"),
    Example(guide("gpu"), "edgedec doctor", left_out=GPU),
    Example(guide("gpu"), "gpu:14layers", left_out=GPU),
    Example(guide("gpu"), "serve --device gpu", left_out=GPU),
    Example(guide("gpu"), "bench kernels", left_out=GPU),
    Example(guide("gpu"), "onnxruntime_ep_webgpu", left_out=GPU),
    Example(guide("installing"), "pip install .\n", left_out="the README's first example does it"),
    Example(guide("installing"), "pip install ./", left_out=".ci/wheels.py --check does it"),
    Example(guide("installing"), "py -m pip install", left_out="is for Windows and macOS"),
    Example(guide("installing"), "_EDGEDEC_COMPLETE=bash_source", left_out="changes files of the shell"),
    Example(guide("installing"), "pip install '.[gpu]'", left_out="extras are large"),
    Example(guide("installing"), ".ci/wheels.py", left_out="builds wheels for many minutes, and checks them"),
    Example(guide("long-chats"), "--prompt-keep 25%", files=("book.txt",), hub=True),
    Example(guide("long-chats"), "--context-weight 1", prints="Lyon"),
    Example(guide("long-chats"), "chat --session talk", stdin="My name is Ada.\n"),
    Example(guide("measuring"), "bench report --quick", left_out=STUDY),
    Example(guide("measuring"), "bench report qwen-laptop", left_out="compares reports of earlier days"),
    Example(guide("memory"), "--context 4096", stdin="Say hello.\n", models=QWEN),
    Example(guide("memory"), "$ edgedec plan", prints=r"kv cache +\d+\.\d MB"),
    Example(guide("memory"), "bench memory", left_out=STUDY),
    Example(guide("memory"), "bench drafts", left_out=STUDY),
    Example(guide("models"), "edgedec list --all", prints=r"(?s)GOOD FOR.*tested +with"),
    Example(guide("models"), "edgedec chat qwen3-1.7b", left_out=GIGABYTES),
    Example(guide("models"), "edgedec chat qwen3-4b", left_out=GIGABYTES),
    Example(guide("models"), "edgedec pull hf:", left_out=GIGABYTES),
    Example(guide("models"), "edgedec rm", left_out=GIGABYTES),
    Example(guide("python"), "import edgedec", prints=r"\w+ \w+"),
    Example(guide("python"), "chat.unfinished", prints=r"\w+ \w+"),
    Example(guide("python"), "model.chat(messages=messages)", prints=r"\w+"),
    Example(guide("python"), "tool_calls", prints=r"rainy", models=QWEN),
    Example(guide("python"), "async for piece", prints=r"\w+ \w+"),
    Example(guide("python"), "model.complete", prints=r"Paris"),
    Example(guide("python"), 'memory="300MB"', prints=r"\w+ \w+"),
    Example(guide("python"), "chat.save", prints=r"\w+ \w+"),
    Example(guide("python"), "model.conversations", prints=r"(?s)\w+ \w+.*\n.*\w+"),
    Example(guide("sampling"), "Write a limerick", stdin="Say hello.\n", prints=r"\w+ \w+"),
    Example(guide("sampling"), "mirostat=3", prints=r"\w+ \w+"),
    Example(guide("sampling"), "--choose vote", prints=r"(?s)--- sample 8, seed 7:.*\w+"),
)


def pages() -> list[str]:
    """README and guide; their blocks must all be known here."""
    return [README, *(f"docs/guide/{file.name}" for file in sorted((ROOT / "docs/guide").glob("*.md")))]


@cache
def blocks(page: str) -> tuple[Block, ...]:
    """The blocks of a page that a reader may run, in order, as they were at the first call."""
    found = FENCED.findall((ROOT / page).read_text(encoding="utf-8"))
    return tuple(
        Block(page, language, text)
        for language, text in found
        if language in LANGUAGES or (not language and text.startswith("$ "))
    )
