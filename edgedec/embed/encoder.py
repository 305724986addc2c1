"""An encoder: texts become vectors, and pairs of them scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgedec.backends.onnx.encoder_session import EncoderSession
from edgedec.bundle.embedding_facts import DOCUMENT, QUERY
from edgedec.bundle.manifest import Manifest
from edgedec.bundle.verification import verify
from edgedec.core.errors import UnsupportedError, UsageError
from edgedec.core.progress import Notice, Progress, ignore, silent
from edgedec.core.quick_dataclass import dataclass
from edgedec.embed.memory import EncoderPlan, plan_encoder
from edgedec.telemetry.cores import check_usable, physical_cores
from edgedec.text.whole_texts import TokenText, WholeTexts

Vectors = NDArray[np.float32]
_TOGETHER, _TOGETHER_CHARS = 64, 1 << 16
"""Texts that become tokens at a time, and their characters: the memory plan has room for no more."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """Vectors f32[texts, size], or scores f32[texts, 1]; tokens that were read; texts that were too long."""

    vectors: Vectors
    tokens: int
    cut: int


class Encoder:
    """A model that makes vectors of texts, or scores of pairs. Get one with ``edgedec.open_encoder``.

    A text's numbers are the same alone and among others, for any number of threads. Several threads may use
    it; their passes take turns.
    """

    def __init__(
        self, manifest: Manifest, session: EncoderSession, texts: WholeTexts, plan: EncoderPlan
    ) -> None:
        assert manifest.embedding is not None, "the manifest is an encoder's"
        self.manifest, self.facts, self.plan = manifest, manifest.embedding, plan
        self._session, self._texts = session, texts

    @property
    def name(self) -> str:
        """The model's name."""
        return self.manifest.name

    @property
    def size(self) -> int:
        """Numbers of a vector."""
        return self.facts.size

    @property
    def context(self) -> int:
        """Tokens of the longest text; a longer one is cut."""
        return self.plan.context

    def embed(
        self,
        texts: Sequence[str | Sequence[int]],
        *,
        kind: str | None = None,
        dimensions: int | None = None,
        notice: Notice = ignore,
    ) -> Encoded:
        """Return a vector for each text.

        - A text may be token ids, which are taken as they are.
        - ``kind``: which of the model's prompts goes in front of texts, "query" or "document"; None: the
          usual one, if there is one. Without a prompt of that name nothing does.
        - ``dimensions``: the first so many numbers, at length 1 again: models that were trained so
          (Matryoshka) lose little by it.
        - ``notice`` gets a line where texts were cut.

        Raises UsageError for an empty text of ids, ids outside the vocabulary, other dimensions, and a
        reranker; BackendError.
        """
        if self.facts.ranks:
            raise UsageError(f"{self.name} is a reranker: it makes scores of pairs, no vectors")
        check_dimensions(self, dimensions)
        prompt = self.facts.prompt(kind)
        found = self._passes([*map(len, texts)], lambda some: self._read(texts[some], prompt))
        _tell(found.cut, self.context, notice)
        if dimensions is None or dimensions == self.size:
            return found
        return Encoded(shortened(found.vectors, dimensions), found.tokens, found.cut)

    def rank(self, query: str, documents: Sequence[str], *, notice: Notice = ignore) -> Encoded:
        """Return a score for each document: how well it answers ``query``.

        A reranker's scores lie between 0 and 1. Of other models they are cosines of the vectors. Raises
        BackendError.
        """
        if self.facts.ranks:
            read = self._texts.encode_pairs
            sizes = [len(query) + len(one) for one in documents]
            found = self._passes(sizes, lambda some: read(query, documents[some]))
            _tell(found.cut, self.context, notice)
            return found
        one = self.embed([query], kind=QUERY, notice=notice)
        others = self.embed(documents, kind=DOCUMENT, notice=notice)
        scores = [cosine(one.vectors[0], other) for other in others.vectors]
        made = np.array(scores, np.float32).reshape(-1, 1)
        return Encoded(made, one.tokens + others.tokens, one.cut + others.cut)

    def _read(self, texts: Sequence[str | Sequence[int]], prompt: str) -> list[TokenText]:
        strings = iter(self._texts.encode([prompt + one for one in texts if isinstance(one, str)]))
        return [next(strings) if isinstance(one, str) else self._given(one) for one in texts]

    def _given(self, ids: Sequence[int]) -> TokenText:
        vocab = self.manifest.spec.vocab_size
        if not ids or not all(0 <= one < vocab for one in ids):
            raise UsageError(f"a text of token ids has none, or one outside the vocabulary of {vocab}")
        kept = ids[: self.context]
        return TokenText(kept, [0] * len(kept), len(ids) > self.context)

    def _passes(self, sizes: Sequence[int], read: Callable[[slice], list[TokenText]]) -> Encoded:
        """Compute all texts; ``sizes``: of each, in characters or tokens."""
        vectors, tokens, cut = np.empty((len(sizes), self.size), np.float32), 0, 0
        done = 0
        for some in together(sizes):
            texts = read(some)
            if not all(one.ids for one in texts):
                raise UsageError(f"a text is empty, and {self.name} puts no tokens around it")
            for batch in batches(texts, self.plan.tokens):
                found = self._session.run([one.ids for one in batch], [one.types for one in batch])
                vectors[done : done + len(batch)] = found
                done += len(batch)
                tokens += sum(len(one.ids) for one in batch)
                cut += sum(one.cut for one in batch)
        return Encoded(vectors, tokens, cut)


def load_encoder(
    bundle: Path,
    *,
    threads: int | None = None,
    memory: int | None = None,
    home: Path | None = None,
    progress: Progress = silent,
) -> Encoder:
    """Open the bundle of an encoder. ``threads``: None: one per physical core.

    - ``memory``: bytes that the process may have resident, at most; None: no budget.
    - ``home``: verify files that changed since the record there; None to trust them.

    Raises NotFoundError, BadFileError, UnsupportedError for a model that replies, MemoryBudgetError,
    UsageError or BackendError.
    """
    check_usable(threads)
    manifest = Manifest.load(bundle)
    if manifest.embedding is None:
        raise UnsupportedError(
            f"{manifest.name} replies to texts and makes no vectors of them",
            hint="name a model that does, such as all-minilm-l6-v2",
        )
    if home:
        verify(bundle, manifest, home, progress=progress)
    session = EncoderSession(bundle, manifest, threads)
    texts = WholeTexts.load(bundle, manifest.spec.context_length, manifest.embedding.pair)
    plan = plan_encoder(manifest, threads or physical_cores(), memory)
    texts.limit(plan.context)
    return Encoder(manifest, session, texts, plan)


def together(sizes: Sequence[int]) -> Iterator[slice]:
    """Yield parts of a list of texts of these sizes that become tokens at a time."""
    start = chars = 0
    for at, size in enumerate(sizes):
        if at > start and (at - start == _TOGETHER or chars + size > _TOGETHER_CHARS):
            yield slice(start, at)
            start, chars = at, 0
        chars += size
    if start < len(sizes):
        yield slice(start, len(sizes))


def batches(texts: Sequence[TokenText], most: int) -> Iterator[list[TokenText]]:
    """Yield texts in order, as many together as have at most ``most`` tokens, or one that has more."""
    batch: list[TokenText] = []
    tokens = 0
    for one in texts:
        if batch and tokens + len(one.ids) > most:
            yield batch
            batch, tokens = [], 0
        batch.append(one)
        tokens += len(one.ids)
    if batch:
        yield batch


def check_dimensions(encoder: Encoder, dimensions: int | None) -> None:
    """Raise UsageError for another number of dimensions than a vector can be cut to."""
    if dimensions is not None and not 1 <= dimensions <= encoder.size:
        raise UsageError(f"vectors of {encoder.name} have 1 to {encoder.size} dimensions, not {dimensions}")


def shortened(vectors: Vectors, dimensions: int) -> Vectors:
    """Return the first numbers of each vector, at length 1. A vector of zeros stays so."""
    short = vectors[:, :dimensions].astype(np.float64)
    lengths = np.array([[length(one)] for one in short])
    made: Vectors = np.divide(short, np.where(lengths > 0, lengths, 1)).astype(np.float32)
    return made


def length(vector: NDArray[np.float64]) -> float:
    """Return the length of a vector; the same number on every machine."""
    return float(np.sqrt(np.add.accumulate(vector * vector)[-1]))


def cosine(one: Vectors, other: Vectors) -> float:
    """Return the cosine of two vectors; 0 where one has no length."""
    a, b = one.astype(np.float64), other.astype(np.float64)
    lengths = length(a) * length(b)
    return float(np.add.accumulate(a * b)[-1] / lengths) if lengths else 0.0


def _tell(cut: int, context: int, notice: Notice) -> None:
    if cut:
        which = "a text was" if cut == 1 else f"{cut} texts were"
        notice(f"{which} longer than the model's context of {context} tokens and cut")
