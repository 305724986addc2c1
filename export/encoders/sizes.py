"""Sizes and options of a model of the BERT family, ModernBERT and NomicBERT among them."""

from __future__ import annotations

from edgedec.core.quick_dataclass import dataclass

BERT, MODERN_BERT, NOMIC_BERT = "bert", "modern-bert", "nomic-bert"
FAMILY = (BERT, MODERN_BERT, NOMIC_BERT)
"""Architectures of GGUF files."""


@dataclass(frozen=True, slots=True)
class Rotations:
    """Positions by rotation, in place of a table: ``base`` of the frequencies.

    ``local`` says of each layer whether a token sees only ``window`` tokens to each side; those layers have a
    base of their own.
    """

    base: float
    local_base: float = 0.0
    window: int = 0
    local: tuple[bool, ...] = ()

    def is_local(self, layer: int) -> bool:
        """Return whether a layer has a window."""
        return bool(self.local) and self.local[layer]


@dataclass(frozen=True, slots=True)
class BertSizes:
    """All sizes are in elements.

    - ``positions``: rows of the position table, or tokens of the longest text where there is none.
    - ``first_position``: row of the position table of a text's first token; RoBERTa's is 2.
    - ``types``: rows of the table of token types; pairs use the second one.
    - ``activation``: a function that the kernels' ``Activate`` knows.
    - ``labels``: scores of a reranker; 0 for a model that makes vectors.
    - ``rotations``: None for a model with a position table.
    - ``gated``: whether the MLP is act(gate x) * (up x).
    - ``norms_first``: whether norms stand before attention and MLP, and one behind the last layer.
    """

    name: str
    vocab: int
    layers: int
    hidden: int
    heads: int
    ffn: int
    positions: int
    epsilon: float
    activation: str = "gelu"
    first_position: int = 0
    types: int = 1
    labels: int = 0
    rotations: Rotations | None = None
    gated: bool = False
    norms_first: bool = False

    @property
    def context(self) -> int:
        """Tokens of the longest text."""
        return self.positions - self.first_position

    @property
    def head_dim(self) -> int:
        return self.hidden // self.heads

    @property
    def token_numbers(self) -> int:
        """See ``token_numbers``."""
        return token_numbers(self.hidden, self.ffn, self.hidden, self.hidden)


def token_numbers(hidden: int, ffn: int, queries: int, keys: int) -> int:
    """Return the floats that a pass holds for each token, at most: see ``EmbeddingFacts``.

    They are q, k and v, queries that are rotated, keys and values in halves, what the heads return, the sides
    of the activation, and four rows of hidden states with their form for the integer kernels.
    """
    return 3 * queries + 3 * keys + 3 * ffn + 4 * hidden
