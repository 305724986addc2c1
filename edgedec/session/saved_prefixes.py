"""Beginnings of prompts on the disk: read in place of being computed, written beside replies.

A page has the keys and values of 256 tokens, whose bits do not depend on the passes that computed them. So a
reply behind pages that were read has the tokens, and the logits, that it has behind pages that were computed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from edgedec.core.errors import (
    BadFileError,
    EdgeDecError,
    MemoryBudgetError,
    NotFoundError,
    UnsupportedError,
)
from edgedec.core.forward import Forward, Paged, Sink, Source
from edgedec.core.ledger import SLACK
from edgedec.core.progress import Notice
from edgedec.core.quick_dataclass import dataclass
from edgedec.core.units import size
from edgedec.core.version import __version__
from edgedec.decode.turn_ends import turn_ends
from edgedec.session.prefix_folder import PrefixFolder
from edgedec.session.prefix_keys import PAGE_TOKENS, PrefixKeys, Stretch, root_of

if TYPE_CHECKING:
    from pathlib import Path

    from edgedec.assemble.runner import Runner
    from edgedec.decode.cached_sequence import CachedSequence
    from edgedec.session.host import Host
    from edgedec.session.reply import Reply

_LEAST_TOKENS = 512
"""Tokens of a prompt that is worth a file."""
_GAIN_TOKENS = 64
"""Tokens on the disk, beyond those in memory, that are worth reading."""
_END_TOKENS = 32
"""Tokens behind the last page that are worth a file of their own."""
_MEASURED_TOKENS = 128
"""Tokens of a prompt whose time tells how fast the model reads."""
_READ_BYTES = 1 << 20
"""Memory in which files are hashed."""
_TOKEN_BYTES = 16
"""Memory of a prompt that is being saved, for each token."""
_JUDGED_S = 0.25
"""Time of reading that tells whether it is worth it."""
_TRIES = 3
_PAUSE_S = 60.0
_CLOSE_S = 20.0


@dataclass(eq=False)
class _Job:
    """A prompt to save, whose slots are in the cache of ``home``. ``token_s``: the time of computing one."""

    home: CachedSequence
    prompt: list[int]
    token_s: float
    number: int
    """The reply during which the cache was looked at."""

    def holds(self, length: int) -> bool:
        """Whether the cache begins with so many tokens of the prompt, without a break since the last call."""
        number = self.home.replies
        same = self.home.committed[:length] == self.prompt[:length]
        unbroken, self.number = number == self.number, number
        return same and unbroken


class _OvertakenError(Exception):
    """The slots changed while they were written."""


class SavedPrefixes:
    """The saved prefixes of one model.

    ``fetch`` is called in the thread of a reply, before it begins; ``keep`` when its prompt was read. A
    thread writes, without a copy: what changed meanwhile is left out. Lines go to ``notice``. To be closed.
    """

    def __init__(self, folder: PrefixFolder, root: str, notice: Notice) -> None:
        self._folder, self._root, self._notice = folder, root, notice
        self._slow = False
        self._token_s: float | None = None
        self._byte_s: float | None = None
        self._paused_until = 0.0
        self._told = set[str]()
        self._changed = threading.Condition()
        self._jobs: dict[int, _Job] = {}
        self._busy = self._closed = False
        self._thread: threading.Thread | None = None
        if others := folder.others():
            notice(f"note: {others} saved prefixes of other models, caches or versions are left alone")

    def fetch(self, home: CachedSequence, prompt: Sequence[int]) -> int:
        """Read the beginning of ``prompt`` into the cache of ``home``, and return the tokens that it gained.

        None are read where that is slower than computing them. A damaged file costs a line, and is removed.
        """
        cache = home.forward.paged
        if self._slow or cache is None or not _LEAST_TOKENS <= len(prompt) <= home.capacity:
            return 0
        keys = PrefixKeys(self._root, prompt)
        found = keys.best(self._folder.names(), needs_end=cache.needs_end)
        had = home.reusable(prompt)
        if not found or found[-1].end - had < _GAIN_TOKENS:
            return 0
        kept = 0 if cache.needs_end else max(one.first for one in found if one.first <= had)
        try:
            with home.ledger.lease(SLACK, _READ_BYTES):
                if cache.needs_end and had and not self._is_right(found[-1]):
                    return 0
                with home.refilled(prompt, kept):
                    self._read(home.forward, cache, [one for one in found if one.first >= kept])
        except MemoryBudgetError:
            return 0
        self._folder.used([one.name for one in found])
        if cache.needs_end:
            home.forward.snapshot()
        return max(home.forward.length - had, 0)

    def keep(self, home: CachedSequence, prompt: Sequence[int], computed: int, seconds: float) -> None:
        """Save ``prompt``, which is in the cache of ``home``; returns at once.

        ``computed``: tokens that took ``seconds``, which tell whether writing is worth while.
        """
        if computed >= _MEASURED_TOKENS and seconds > 0:
            self._token_s = seconds / computed
        if self._token_s is None or len(prompt) < _LEAST_TOKENS or home.forward.paged is None:
            return
        with self._changed:
            if self._closed:
                return
            self._jobs[id(home)] = _Job(home, list(prompt), self._token_s, home.replies)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="saved prefixes", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def keep_reply(self, home: CachedSequence, reply: Reply) -> None:
        """Save the prompt of ``reply``, of which some token is there, in the cache of ``home``."""
        if (stats := reply.stats).completion_tokens:
            computed = stats.prompt_tokens - stats.reused_tokens
            self.keep(home, reply.prompt, computed, stats.prefill_s)

    def host_of(self, host: Host, home: CachedSequence) -> Host:
        """Return ``host`` for a chat with the cache of ``home``, whose prompts are read and saved."""
        return replace(host, fetch=partial(self.fetch, home), kept=partial(self.keep_reply, home))

    def close(self) -> None:
        """Write what waits, if that takes no longer than 20 seconds, and end the thread."""
        with self._changed:
            self._changed.wait_for(lambda: not (self._jobs or self._busy), _CLOSE_S)
            self._closed = True
            self._jobs.clear()
            self._changed.notify_all()
        if self._thread:
            self._thread.join(_CLOSE_S)

    def wait(self) -> None:
        """Wait until all that was given to ``keep`` is written or left out."""
        with self._changed:
            self._changed.wait_for(lambda: not (self._jobs or self._busy))

    def _is_right(self, one: Stretch) -> bool:
        """Whether a file is there and right, before memory gives up tokens for it."""
        try:
            with self._folder.opened(one):
                return True
        except (EdgeDecError, EOFError) as error:
            self._refuse(one, error)
            return False

    def _read(self, forward: Forward, cache: Paged, stretches: Sequence[Stretch]) -> None:
        """Read stretches, each behind the other, as far as they are right, and quicker than computing."""
        began, worth_s, done = time.perf_counter(), 0.0, False
        for one in stretches:
            try:
                with self._folder.opened(one) as (stored, seconds):
                    self._fill(cache, one, stored.body, stored.body_bytes)
            except (EdgeDecError, EOFError) as error:
                self._refuse(one, error)
                break
            done, worth_s = one.closes, worth_s + seconds
            if max(worth_s, _JUDGED_S) < time.perf_counter() - began:
                self._slow = True
                self._notice("note: saved prefixes are read no more: it takes longer than computing them")
                break
        if cache.needs_end and not done:
            forward.rewind(0)

    def _fill(self, cache: Paged, one: Stretch, source: Source, nbytes: int) -> None:
        """Read one file behind the slots of ``cache``."""
        if nbytes != _bytes_of(cache, one):
            raise BadFileError(f"saved prefix {one.name} has the wrong size")
        if one.first < one.end:
            cache.read_page(source, one.end)
        if one.closes and cache.needs_end:
            cache.read_end(source)

    def _refuse(self, one: Stretch, error: Exception) -> None:
        if isinstance(error, NotFoundError):  # it was the oldest for another process just now
            return
        if isinstance(error, (BadFileError, UnsupportedError, EOFError)):
            self._folder.drop(one.name)
            self._notice(f"note: a saved prefix was removed, and its tokens are computed: {error}")
            return
        self._notice(f"note: a saved prefix cannot be read, and its tokens are computed: {error}")

    def _work(self) -> None:
        while (job := self._next()) is not None:
            try:
                with job.home.ledger.lease(SLACK, _TOKEN_BYTES * len(job.prompt)):
                    self._save(job)
            except _OvertakenError:
                pass
            except Exception as error:  # a full disk, among others: replies go on
                self._paused_until = time.monotonic() + _PAUSE_S
                self._notice(f"note: prefixes are not saved for {_PAUSE_S:.0f} seconds: {error}")
            finally:
                del job

    def _next(self) -> _Job | None:
        with self._changed:
            self._busy = False
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._jobs or self._closed)
            if not self._jobs:
                return None
            self._busy = True
            return self._jobs.pop(next(iter(self._jobs)))

    def _save(self, job: _Job) -> None:
        cache = job.home.forward.paged
        if cache is None or time.monotonic() < self._paused_until:
            return
        keys, names = PrefixKeys(self._root, job.prompt), self._folder.names()
        pages = keys.pages(len(job.prompt) - 1)
        ends = [keys.end(at) for at in _ends(job, cache)]
        wanted = [*pages, *ends] if ends or not cache.needs_end else []
        missing = [one for one in wanted if one.name not in names]
        best = keys.best(names, needs_end=cache.needs_end)
        gain = max((one.end for one in missing), default=0) - (best[-1].end if best else 0)
        if gain < _GAIN_TOKENS or not self._worth(job, cache, missing, gain):
            return
        keep = [one.name for one in wanted]
        for one in missing:
            if not self._written(job, cache, one, keep):
                limit = size(self._folder.limit)
                self._once(f"note: {limit} of saved prefixes have no room for all of a prompt")
                break
        self._folder.used(keep)

    def _worth(self, job: _Job, cache: Paged, missing: Sequence[Stretch], gain: int) -> bool:
        """Whether writing takes less time than computing did."""
        if self._byte_s is None:
            return True
        write_s = self._byte_s * sum(_bytes_of(cache, one) for one in missing)
        if write_s < gain * job.token_s:
            return True
        self._once("note: prefixes are not saved where writing them takes longer than computing them")
        return False

    def _written(self, job: _Job, cache: Paged, one: Stretch, keep: Sequence[str]) -> bool:
        """Write one file, again where a reply began meanwhile that has the same tokens there."""
        for _ in range(_TRIES):
            with suppress(_OvertakenError):
                return self._write(job, cache, one, keep)
        raise _OvertakenError

    def _write(self, job: _Job, cache: Paged, one: Stretch, keep: Sequence[str]) -> bool:
        """Write one file; False where there is no room. Raises _OvertakenError and the errors of writing."""
        if self._closed or not (job.holds(one.end) or job.holds(one.end)):
            raise _OvertakenError

        def body(sink: Sink) -> None:
            try:
                if one.first < one.end:
                    cache.write_page(sink, one.first, one.end)
                if one.closes and cache.needs_end:
                    cache.write_end(sink, one.end)
            except ValueError as error:
                raise _OvertakenError from error
            if not job.holds(one.end):
                raise _OvertakenError

        nbytes, began = _bytes_of(cache, one), time.perf_counter()
        written = self._folder.write(one, job.token_s * (one.end - one.first), nbytes, body, keep)
        self._byte_s = (time.perf_counter() - began) / max(nbytes, 1) if written else self._byte_s
        return written

    def _once(self, line: str) -> None:
        if line not in self._told:
            self._told.add(line)
            self._notice(line)


def _bytes_of(cache: Paged, one: Stretch) -> int:
    return cache.page_bytes(one.first, one.end) + (cache.end_bytes(one.end) if one.closes else 0)


def _ends(job: _Job, cache: Paged) -> list[int]:
    """Return how many tokens lie before the ends that can be written now, the longest first."""
    turns = turn_ends(job.prompt, job.home.spec.eos_ids)
    places = [len(job.prompt) - 1, *reversed(turns if cache.needs_end else turns[-1:])]
    found = dict.fromkeys(cache.end_before(at) for at in places)
    return [at for at in found if at and (cache.needs_end or at % PAGE_TOKENS >= _END_TOKENS)]


def prefixes_of(runner: Runner, home: Path, limit: int, notice: Notice) -> SavedPrefixes | None:
    """Return the saved prefixes in ``home`` of a run's model, at most ``limit`` bytes of all models.

    None, and a line to ``notice``, where its cache cannot be saved so.
    """
    forward, model = runner.forward, runner.model
    if (cache := forward.paged) is None or not forward.caps.exact:
        notice(f"note: no prefixes are saved: the KV cache of {model.isa} cannot be written in pages")
        return None
    if runner.engine.policy is not None:
        notice("note: no prefixes are saved where a full context evicts tokens")
        return None
    assert model.codec.model_id is not None, "it has a manifest"
    facts = {"model": model.codec.model_id.sha256, "layout": cache.cache_layout, "edgedec": __version__}
    root = root_of(*facts.values())
    return SavedPrefixes(PrefixFolder(home, root, facts, limit), root, notice)
