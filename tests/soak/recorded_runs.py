"""Random runs on tiny models through the public API, recorded in one checkout and compared in another.

How to run it, with the older checkout first and from its root:

    cd OLD && PYTHONPATH=. .venv/bin/python NEW/tests/soak/recorded_runs.py record FILE
    cd NEW && .venv/bin/python -m tests.soak.recorded_runs compare FILE

``FILE`` gets one line of JSON for each run. The bundles lie in the folder ``FILE.models``, so both checkouts
run the same ones. ``--runs`` and ``--seed`` belong to ``record``; ``compare`` repeats them.

A run is a choice of model, drafters, cache, sampling, grammar, memory budget, full context, and of one
conversation or several. Compared are:

- replies: tokens, texts, reasons to end, log-probabilities, and the errors of refused ones
- plan: the memory plan by its parts, without the bytes of the process, which differ from run to run
- passes: where each began, what it fed and committed, its draft and the drafter of each token

Only passes move the clock of a single conversation, so its drafts are the same each time. Conversations in
a batch are timed for real: of them passes are not compared. ``compare`` ends with 1 where anything differs;
with ``--passes-may-differ`` only where replies or plans do, as after a change of control.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from edgedec.api import Model
from edgedec.assemble.config import RunConfig
from edgedec.assemble.prepare import Bundles, prepare
from edgedec.assemble.run_context import RunContext
from edgedec.core.cache_config import CacheConfig
from edgedec.core.errors import DeviceLostError, EdgeDecError
from edgedec.decode.records import PassRecord
from edgedec.export import export_gguf
from edgedec.loaded_model import LoadedModel, load_model
from edgedec.memory.footprint import MemoryChoice, MemoryFacts
from edgedec.memory.plan import least, peak
from edgedec.session.reply import Reply
from tests.fixtures.carried import PLACES
from tests.fixtures.tiny_experts import ExpertShape
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.fixtures.tiny_hybrid import DeltaShape

SAYS = 12
"""Ids that most targets say, so that drafts are often right."""
SMALL = "small"
TARGETS = {
    "llama": ("lookup,recycling", "head", "head,lookup", "exit", SMALL),
    "qwen2": ("recycling", "exit", SMALL),
    "qwen3moe": ("lookup", "lookup,recycling"),
    "gemma3": ("assistant", "assistant,lookup", "recycling"),
    "gemma4": ("assistant", "lookup"),
    "qwen35": ("mtp", "mtp,recycling"),
    "lfm2": ("lookup,recycling", "exit"),
}
"""Drafters to choose from beside "auto" and "off", by architecture."""
OWN = {"llama": "head", "gemma3": "assistant", "gemma4": "assistant", "qwen35": "mtp"}
TEXTS = ("Hello", "hello world", "the end", "and the hello of the world", "no", "the world " * 9, "of " * 40)
FORMS: tuple[dict[str, Any], ...] = (
    {"regex": "[a-f]{3,12}(yes|no)"},
    {"schema": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}},
    {"grammar": 'start: ("ab" | "cd")+ "."'},
)
SAMPLINGS: tuple[dict[str, Any], ...] = (
    {"temperature": 0.0},
    {"temperature": 0.0},
    {"temperature": 1.3, "top_p": 0.9},
    {"temperature": 1.1, "top_k": 20, "repetition_penalty": 1.2},
    {"temperature": 0.9, "min_p": 0.05, "presence_penalty": 0.5},
    {"temperature": 1.0, "mirostat": 3.0},
    {"temperature": 1.0, "typical": 0.9, "logit_bias": {5: 2.0}},
)


@dataclass(frozen=True)
class How:
    """The choices of one run."""

    target: str
    settings: dict[str, Any]
    sampling: dict[str, Any]
    turns: list[tuple[str, int]]
    """Texts and the most tokens of their replies."""
    budget: float | None = None
    """The place of the memory budget between the least one and the one that gives up nothing."""
    form: int | None = None
    completes: bool = False
    """Whether texts are continued, with log-probabilities; otherwise they are turns of a chat."""
    saves: bool = False
    """Whether the chat is saved after each turn, and another one goes on from there."""
    lost: int = 0
    """The pass in which the device is lost; 0: in none."""


@dataclass
class Clock:
    """A clock that only passes move, the same number of seconds for the same pass."""

    now: float = 0.0
    passes: int = 0
    lost: int = 0

    def __call__(self) -> float:
        return self.now


@dataclass
class TimedBackend:
    """A backend whose single cache moves ``clock``."""

    inner: Any
    clock: Clock
    base_s: float
    targeted: bool
    """Whether it is the target, whose device may be lost."""
    caches: list[Any] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def forward(self, cache: CacheConfig, ledger: Any = None) -> Any:
        forward = self.inner.forward(cache, ledger)
        extend = forward.extend

        def timed(tokens: Any, **how: Any) -> Any:
            self.clock.passes += self.targeted
            if self.targeted and self.clock.passes == self.clock.lost:
                forward.rewind(0)
                error = DeviceLostError("the device was lost")
                error.replaced = True
                raise error
            self.clock.now += self.base_s * (1.0 + 0.06 * len(tokens))
            return extend(tokens, **how)

        forward.extend = timed
        return forward


def bundle_of(folder: Path, architecture: str) -> Path:
    """Return the bundle of a target, or of the small model; it is exported once, with its drafter."""
    own = folder / architecture
    if not own.exists():
        kind, name = OWN.get(architecture), "llama" if architecture == SMALL else architecture
        layers = 7 if architecture.startswith("gemma") else 2 if architecture == SMALL else 5
        delta = DeltaShape(nextn=int(kind == "mtp"))
        shape = TinyShape(layers=layers, context=512, delta=delta, experts=ExpertShape())
        mute = () if architecture == "qwen2" else tuple(range(SAYS, 260))
        made = folder / f"{architecture}.partial"
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(parents=True)
        seed = (SMALL, *TARGETS).index(architecture)
        gguf = write_tiny(made / "m.gguf", name, shape=shape, mute=mute, sharpness=4.0, seed=seed)
        export_gguf(gguf, made / "bundle")
        if kind is not None:
            PLACES[kind](made, bundle=made / "bundle")
        made.rename(own)
    return own / "bundle"


def drawn(seed: int, number: int) -> How:
    """Draw the choices of run ``number``."""
    draw = random.Random(f"{seed} {number}")
    target = draw.choice([*TARGETS])
    conversations = draw.choice([None, None, None, 1, 2, 4])
    draft = draw.choice(["auto", "auto", "off", *TARGETS[target] * 2])
    if conversations is not None and draw.random() < 0.9:
        draft = draw.choice(["auto", "off", "lookup", "recycling", *[SMALL] * (SMALL in TARGETS[target])])
    settings: dict[str, Any] = {
        "threads": 1,
        "context": draw.choice([48, 96, 200, 400]),
        "kv": draw.choice(["fp16", "int8"]),
        "draft": draft,
        "draft_tokens": draw.choice([1, 4, 15]),
        "conversations": conversations,
    }
    single = conversations is None
    if single:
        settings["when_full"] = draw.choice([None, None, "stop", "slide", "speckv"])
        settings["history"] = draw.random() < 0.2
        if target == "llama" and draw.random() < 0.5 and settings["when_full"] in (None, "stop"):
            settings["switch"] = SMALL
    limited = settings["context"] > 96 and draw.random() < 0.3
    turns = [(draw.choice(TEXTS), draw.choice([4, 24, 60])) for _ in range(draw.choice([1, 3, 5]))]
    sampling = {**draw.choice(SAMPLINGS), "seed": draw.randrange(1000)}
    form = draw.randrange(len(FORMS)) if draw.random() < 0.25 else None
    switched = "switch" in settings
    return How(
        target,
        settings,
        sampling,
        turns,
        draw.random() if limited else None,
        form if not switched else None,
        completes=single and form is None and draw.random() < 0.3,
        saves=single and not switched and draw.random() < 0.3,
        lost=draw.randrange(2, 20) if single and not switched and draw.random() < 0.25 else 0,
    )


def run_of(how: How, bundles: Path) -> dict[str, Any]:
    """Make one run; returns what it said, its memory plan and its passes."""
    clock, passes = Clock(), list[PassRecord]()
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch) / "home"
        home.mkdir()
        where = Bundles(bundle_of(bundles, how.target), {SMALL: bundle_of(bundles, SMALL)})
        if (drafters := bundles / how.target / "home" / "drafters").exists():
            shutil.copytree(drafters, home / "drafters")
        config = RunConfig(**how.settings, sampling=how.sampling, structured=how.form is not None)
        if how.budget is not None:
            config = replace(config, memory=partial(_budget, how.budget))
        context = RunContext(home, clock=clock, observe=passes.append)
        try:
            with Model(prepare(config, where, context, partial(_load, clock))) as model:
                clock.passes, clock.lost = 0, how.lost
                replies = [*_batched(model, how), *_single(model, how, Path(scratch))]
                plan = _plan(model)
        except EdgeDecError as error:
            return {"replies": [_error(error)], "plan": None, "passes": []}
    if how.settings["conversations"] is not None:
        passes = []
    return {"replies": replies, "plan": plan, "passes": [_pass(one) for one in passes]}


def _budget(share: float, facts: MemoryFacts, wanted: MemoryChoice) -> int:
    lowest = least(facts, wanted)
    return int(lowest + share * (peak(facts, wanted) - lowest))


def _load(clock: Clock, bundle: Path, /, **how: Any) -> LoadedModel:
    loaded, small = load_model(bundle, **how), bundle.parent.name == SMALL
    backend: Any = TimedBackend(loaded.backend, clock, 0.0005 if small else 0.004, not small)
    return replace(loaded, backend=backend)


def _single(model: Model, how: How, folder: Path) -> Iterator[dict[str, Any]]:
    if how.settings["conversations"] is not None:
        return
    if how.completes:
        for text, most in how.turns:
            yield _said(partial(model.complete, text, max_tokens=most, logprobs=2))
        return
    form = {} if how.form is None else FORMS[how.form]
    chat = model.chat(max_tokens=how.turns[0][1], **form)
    for number, (text, _) in enumerate(how.turns):
        yield _said(partial(chat.reply, text))
        if how.saves and chat.last is not None:
            chat.save(folder / f"saved-{number}")
            chat = model.restore(folder / f"saved-{number}")


def _batched(model: Model, how: How) -> Iterator[dict[str, Any]]:
    if how.settings["conversations"] is None:
        return
    form = {} if how.form is None else FORMS[how.form]
    with model.conversations(max_tokens=how.turns[0][1], **form) as several:
        for answer in several.answers([text for text, _ in how.turns]):
            yield _answered(answer.reply, answer.error)
        if how.form is None:
            for answer in several.samples(how.turns[0][0], 3):
                yield _answered(answer.reply, answer.error)


def _answered(reply: Reply | None, error: BaseException | None) -> dict[str, Any]:
    if error is not None:
        return _error(error)
    assert reply is not None
    return _reply(reply)


def _said(begin: Callable[[], Reply]) -> dict[str, Any]:
    """Read a reply to its end, or return the error that refuses it."""
    try:
        reply = begin()
        reply.read()
    except EdgeDecError as error:
        return _error(error)
    return _reply(reply)


def _reply(reply: Reply) -> dict[str, Any]:
    rows = [[one.text, round(one.logprob, 5), [top.text for top in one.top]] for one in reply.logprobs]
    counts = [reply.stats.prompt_tokens, reply.stats.completion_tokens]
    return {"tokens": reply.tokens, "text": reply.text, "logprobs": rows, "counts": counts, "cut": reply.cut}


def _error(error: BaseException) -> dict[str, Any]:
    return {"error": type(error).__name__, "line": str(error)}


def _plan(model: Model) -> dict[str, Any] | None:
    if (plan := model.plan()) is None:
        return None
    parts = {name: count for name, count in plan.parts.items() if name != "process"}
    own = plan.planned - plan.parts["process"]
    single = model.config.conversations is None  # several lease as their threads run
    leased = {name: count for name, count in plan.most_leased.items() if single and name != "process"}
    return {
        "parts": parts,
        "planned": own,
        "choice": asdict(plan.choice),
        "given_up": plan.given_up,
        "leased": leased,
    }


def _pass(one: PassRecord) -> list[Any]:
    tree = one.tree
    return [one.start, one.fed, one.committed, [*tree.tokens], [*tree.parents], [*tree.sources], [*one.path]]


def main() -> int:
    """Record or compare, as the arguments say."""
    parser = argparse.ArgumentParser(description="Record random runs, or compare others with them.")
    parser.add_argument("what", choices=["record", "compare"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--passes-may-differ", action="store_true")
    given = parser.parse_args()
    if given.what == "compare":
        return compared(given.file, passes=not given.passes_may_differ)
    record(given.file, given.runs, given.seed)
    return 0


def record(file: Path, runs: int, seed: int) -> None:
    """Write random runs to ``file``."""
    with file.open("w") as out:
        for number in range(runs):
            how = drawn(seed, number)
            found = {"seed": seed, "how": asdict(how), **run_of(how, _models(file))}
            out.write(json.dumps(found) + "\n")


def _models(file: Path) -> Path:
    return file.with_name(f"{file.name}.models")


def compared(file: Path, *, passes: bool = True) -> int:
    """Repeat the runs of ``file``; prints what differs, and returns 1 if that counts."""
    models, differ = _models(file), {"replies": 0, "plan": 0, "passes": 0}
    tokens = 0
    recorded = file.read_text().splitlines()
    for number, line in enumerate(recorded):
        before = json.loads(line)
        how = drawn(before["seed"], number)
        if json.loads(json.dumps(asdict(how))) != before["how"]:
            print(f"run {number}: the file is of another version of this script")
            return 1
        now = json.loads(json.dumps(run_of(how, models)))
        tokens += sum(len(reply.get("tokens", ())) for reply in now["replies"])
        for name in differ:
            if now[name] != before[name]:
                differ[name] += 1
                print(f"run {number}: {name} differ\n  {how}\n  before {_first(before[name], now[name])}")
    counts = ", ".join(f"{count} differ in {name}" for name, count in differ.items())
    print(f"{len(recorded)} runs, {tokens} tokens: {counts}")
    return int(any(count for name, count in differ.items() if passes or name != "passes"))


def _first(before: Any, now: Any) -> str:
    """Return the first place where two records differ."""
    if isinstance(before, list) and isinstance(now, list):
        for at, (one, other) in enumerate(zip(before, now, strict=False)):
            if one != other:
                return f"[{at}] {json.dumps(one)[:400]}\n  now    [{at}] {json.dumps(other)[:400]}"
        return f"{len(before)}\n  now    {len(now)} of them"
    return f"{json.dumps(before)[:600]}\n  now    {json.dumps(now)[:600]}"


if __name__ == "__main__":
    sys.exit(main())
