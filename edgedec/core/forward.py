"""The seam between the runtime and whatever computes logits.

``Forward`` is what every model with a KV cache does. What only some do is a part of its own, which a forward
offers by an attribute of the part's name: None where there is none. A forward that has a part inherits its
class.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from edgedec.core.cache_config import KvType
from edgedec.core.ledger import Ledger
from edgedec.core.model_spec import ModelSpec
from edgedec.core.quick_dataclass import dataclass
from edgedec.core.rows import LAST_ROW, FloatArray, HeadRows, Parents, Rows


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The abilities of a backend, known before there is a cache. Callers check them before they spend tokens.

    Parts that a forward has beside its core are no capabilities: ask the forward for the part.
    """

    max_pass: int
    """Most tokens that one ``extend`` accepts. Longer prompts are fed in pieces."""
    trees: bool
    """Whether ``extend`` accepts ``parents`` other than a chain."""
    exact: bool
    """Whether a token's results have the same bits however its text was cut into passes."""
    most_undone: int = 0
    """Most tokens of one pass that ``rewind`` can take back again, also most tokens of a tree; 0: no bound.
    Recurrent states go further back to a checkpoint alone.
    """
    reserves: bool = False
    """Whether EdgeDec allocates all memory that the model needs, and so can bound it."""
    sequences: int = 1
    """Most sequences that ``Backend.sequences`` can run in one pass; 1: none beside the first."""
    kv_kinds: tuple[KvType, ...] = ()
    """Formats of the cache to choose from, the default first. Empty: the runtime decides."""
    taps: tuple[int, ...] = ()
    """Layers whose outputs a pass can return as hidden states (``Rows.taps``), ascending. Empty: none."""
    exits: tuple[int, ...] = ()
    """Numbers of layers after which ``Peeking.peek`` computes logits, ascending; the last is all layers."""
    trims: bool = False
    """Whether a head can be trimmed (``Rows.keep``)."""
    contrasts: bool = False
    """Whether ``Backend.contrasting`` can make a forward whose logits weigh a text."""


class Sink(Protocol):
    """A file, or anything else that takes bytes."""

    def write(self, data: memoryview, /) -> object: ...


class Source(Protocol):
    """A file, or anything else that gives bytes."""

    def readinto(self, buffer: memoryview, /) -> int | None:
        """Fill ``buffer`` and return the number of bytes; fewer than asked for only at the end."""


class KvCache(ABC):
    """The cache of a model. The committed tokens live outside of it; this cache follows them."""

    spec: ModelSpec
    caps: Capabilities
    ledger: Ledger
    """The ledger that this forward leases its memory from."""
    capacity: int
    """Most tokens that the cache holds."""

    @property
    @abstractmethod
    def length(self) -> int:
        """Position of the next token: the tokens fed so far, evicted ones included."""

    @abstractmethod
    def reachable(self, length: int) -> int:
        """Return how many tokens ``rewind(length)`` leaves: ``length``, or fewer where the cache has lost
        some that the next token would see. Layers with a window keep only the newest tokens, and recurrent
        states go back to a checkpoint. Feed the rest again.
        """

    @abstractmethod
    def rewind(self, length: int) -> None:
        """Forget every token from position ``reachable(length)`` on. Raises ValueError beyond ``length``.

        With ``caps.most_undone`` the cache takes a checkpoint here, also where nothing is forgotten.
        """

    @abstractmethod
    def keep_path(self, nodes: Sequence[int]) -> None:
        """Keep only ``nodes`` of the last pass (indices into it, a root path), compacted in that order."""

    @abstractmethod
    def nbytes(self) -> dict[str, int]:
        """Bytes held, by purpose (``weights``, ``kv_cache``, ...)."""

    @property
    def peeking(self) -> Peeking | None:
        """The part of that name, as the following ones: None where it is lacking."""
        return self if isinstance(self, Peeking) and self.caps.exits else None

    @property
    def evicting(self) -> Evicting | None:
        return self if isinstance(self, Evicting) else None

    @property
    def attending(self) -> Attending | None:
        return self if isinstance(self, Attending) else None

    @property
    def portable(self) -> Portable | None:
        return self if isinstance(self, Portable) else None

    @property
    def copying(self) -> Copying | None:
        return self if isinstance(self, Copying) else None

    @property
    def paged(self) -> Paged | None:
        return self if isinstance(self, Paged) else None

    @property
    def contrasting(self) -> Contrasting | None:
        return self if isinstance(self, Contrasting) else None

    @property
    def snapshots(self) -> bool:
        """Whether ``snapshot`` is of use."""
        return False

    def snapshot(self) -> bool:
        """Keep a copy of the recurrent states, to which ``rewind`` can go back later; whether that was done.

        It takes memory that the plan has for it, and takes the place of an older one.
        """
        return False

    def expect(self, places: Callable[[], Iterable[int]]) -> None:
        """Take note of lengths that ``rewind`` may be asked for later, ``places()``.

        A cache that loses slots meanwhile keeps copies of what these need, where there is memory for it.
        """
        return None

    @property
    def lent(self) -> Mapping[str, NDArray[np.float16]] | None:
        """Its keys and values by the names of the graph's inputs. To be read between passes, as they are.
        None where no other graph can read them.
        """
        return None


class Forward(KvCache):
    """A model with its KV cache."""

    @abstractmethod
    def extend(self, tokens: Sequence[int], *, parents: Parents = None, rows: Rows = LAST_ROW) -> HeadRows:
        """Run one pass over ``tokens`` and append them to the cache in the order given.

        ``parents[i]`` is the index in this pass of token i's parent, or -1 for a child of the last resident
        token; None means a chain. After a pass over a tree, settle the cache with ``keep_path`` or ``rewind``
        before the next ``extend``. Raises ContextFullError when the tokens do not fit, ValueError for
        malformed parents or rows, UnsupportedError for a tree without ``caps.trees``.
        """


class Peeking(ABC):
    """Runs tokens through the lower layers only, which the next pass then need not do again."""

    @abstractmethod
    def peek(
        self,
        tokens: Sequence[int],
        *,
        exit: int,
        resume: int | None = None,
        parents: Parents = None,
        rows: Rows = LAST_ROW,
    ) -> HeadRows:
        """Run only the first ``exit`` layers over ``tokens``, and the model's norm and head over ``rows``.

        With ``resume``, an exit too, the tokens go on from there to the layers behind the first ``resume``.
        Those layers' work is the draft's alone: the next pass does it again.

        Nothing is appended: ``length`` stays. The tokens follow those peeked before. ``parents[i]`` is the
        index of token i's parent among all peeked tokens, these included, or -1 for a child of the last
        resident token; None means a chain that goes on from the last peeked token. ``rows`` are indices into
        ``tokens``.

        The next ``extend`` whose tokens and parents begin like the peeked ones takes their lower layers from
        here: nothing is computed twice, and its bits are the same. Every other change of the cache, and
        a peek with another ``exit`` or ``resume``, drops all that was peeked. Raises ValueError for an exit
        that is not in ``caps.exits``, a ``resume`` below ``exit``, hidden states, more tokens than
        ``caps.max_pass`` in all, and as ``extend``.
        """

    @property
    @abstractmethod
    def peeked(self) -> tuple[int, ...]:
        """The tokens peeked since the cache last changed."""


class Evicting(ABC):
    """Tokens can leave the midst of the cache."""

    @property
    @abstractmethod
    def resident(self) -> int:
        """Slots taken: ``length`` less the evicted tokens."""

    @property
    @abstractmethod
    def evicted(self) -> range:
        """Positions of the zone that tokens were evicted from; some may have stayed (``select``).

        Empty after a rewind to before the zone. ``rewind`` cannot go to a position within it but its first.
        """

    @abstractmethod
    def evict(self, first: int, count: int) -> None:
        """Evict ``count`` tokens behind the first ``first`` slots. All others keep keys, values and position.

        Raises ValueError unless the tokens are resident and settled, for another ``first`` than that of an
        existing zone, and for a part of the tokens that stayed in it.
        """

    @abstractmethod
    def select(self, first: int, end: int, kept: NDArray[np.intp]) -> None:
        """Evict all of the slots [first, end) but those that each head keeps.

        ``kept[layers, kv heads, n]`` are slots, ascending. They and the slots behind ``end`` move down in
        that order. Raises ValueError where ``evict`` does, and for slots that do not ascend in [first, end).
        """


class Attending(ABC):
    """Reports how much tokens attend to each slot."""

    @abstractmethod
    def attention(self, tokens: Sequence[int]) -> FloatArray:
        """Feed ``tokens``, a chain, and return the attention to every slot, f32[layers, kv heads, slots].

        Slots are those resident before and those of ``tokens``. A value is the greatest weight that a query
        of ``tokens``, in a head that reads the key, gave the slot. Raises the errors of ``extend``.
        """


class Contrasting(ABC):
    """Logits weigh a text: they are made of those with the text and those of the same tokens without it."""

    @abstractmethod
    def leave_out(self, prompt: int, without: Sequence[int]) -> None:
        """Take note of a prompt of ``prompt`` tokens, which are ``without`` where the text is left out.

        Logits are made of both from its last token on. The cache keeps what lies before that; what it has
        behind is kept where the prompt is that of the last call. Raises ValueError where ``without`` is empty
        or longer.
        """


class Portable(ABC):
    """The cache can be written to a file and read back."""

    @property
    @abstractmethod
    def cache_layout(self) -> str:
        """The layout of a slot, as text. A cache can be read where model and layout are the same."""

    @abstractmethod
    def cache_bytes(self, length: int) -> int:
        """Bytes of ``length`` slots, as written."""

    @abstractmethod
    def write_cache(self, sink: Sink, length: int) -> None:
        """Write the slots of the first ``length`` tokens.

        Raises ValueError unless they are all resident and settled, and where ``rewind(length)`` would leave
        fewer.
        """

    @abstractmethod
    def read_cache(self, source: Source, length: int) -> None:
        """Replace the cache by ``length`` tokens whose slots come from ``source``.

        Raises ContextFullError when they do not fit, EOFError when ``source`` ends early, BadFileError when
        the slots cannot be right; the cache is empty then.
        """


class Paged(Portable):
    """Stretches of the cache can be written to files of their own, and read back one behind the other.

    A page has the keys and values of some slots. An end has what a cache needs beside them to go on behind a
    token: the newest slots of layers with a window, and recurrent states.
    """

    @property
    @abstractmethod
    def needs_end(self) -> bool:
        """Whether nothing can follow pages that were read without an end."""

    @abstractmethod
    def end_before(self, length: int) -> int:
        """Return the most tokens, at most ``length``, behind which an end can be written now; 0: none."""

    @abstractmethod
    def page_bytes(self, first: int, end: int) -> int:
        """Bytes of the slots [first, end), as written."""

    @abstractmethod
    def end_bytes(self, length: int) -> int:
        """Bytes of an end, as written; 0 without ``needs_end``."""

    @abstractmethod
    def write_page(self, sink: Sink, first: int, end: int) -> None:
        """Write the slots [first, end). May be called beside passes, from another thread.

        Raises ValueError where they are not there.
        """

    @abstractmethod
    def write_end(self, sink: Sink, length: int) -> None:
        """Write the end behind ``length`` tokens, which ``end_before`` named, as ``write_page`` does.

        Raises ValueError where it was lost, also meanwhile.
        """

    @abstractmethod
    def read_page(self, source: Source, end: int) -> None:
        """Append the slots from ``length`` to ``end``.

        Raises ContextFullError, EOFError; the cache is as before then.
        """

    @abstractmethod
    def read_end(self, source: Source) -> None:
        """Take the end behind all pages, which were read. Raises EOFError, BadFileError; empty then."""


class Copying(ABC):
    """Tokens of another cache of the model can be copied into this one."""

    @abstractmethod
    def copy_prefix(self, source: Forward, length: int) -> int:
        """Replace the cache by the first ``length`` tokens of ``source``, and return the tokens it has then.

        They are ``length``; or fewer where ``source`` lacks slots of them, or lost some meanwhile that the
        next token would see (see ``reachable``). ``source``: another cache of the same model, format and pass
        length. It may be in a pass of its own thread, but must not be rewound below ``length``. Raises
        ValueError for another kind of cache, ContextFullError and MemoryBudgetError.
        """
