"""Recurrent layers: which layers are, and the sizes of Gated DeltaNet and of short convolutions."""

from __future__ import annotations

from edgedec.core.cache_kinds import States
from edgedec.core.errors import BadFileError, UnsupportedError
from edgedec.core.quick_dataclass import dataclass
from edgedec.export.architectures.base import Architecture
from edgedec.export.metadata_keys import MetadataKeys

ATTENTION, DELTA, CONV = "attention", "delta", "conv"
"""Kinds of layers by what mixes their tokens; the last two are names of ``States`` too."""
_DELTA_PERIOD = 4
_MOST_HEADS = 1 << 16
_MOST_TAPS = 8
_MOST_CHANNELS = 1 << 20
_NO_ATTENTION = "the model has no layer with attention, which is not supported"


@dataclass(frozen=True, slots=True)
class DeltaSizes:
    """Sizes of Gated DeltaNet layers, in elements.

    Value head h reads key head h modulo ``k_heads``, as in a GGUF file.
    """

    k_heads: int
    v_heads: int
    k_dim: int
    v_dim: int
    kernel: int
    """Width of the convolution, in tokens."""

    @property
    def keys(self) -> int:
        return self.k_heads * self.k_dim

    @property
    def values(self) -> int:
        return self.v_heads * self.v_dim

    @property
    def channels(self) -> int:
        """Numbers of q, k and v of a token, which the convolution reads."""
        return 2 * self.keys + self.values

    def states(self, layers: int) -> States:
        """Return what ``layers`` such layers remember: rows of q, k, v, b and a, and a matrix a head."""
        trail, state = self.channels + 2 * self.v_heads, self.v_heads * self.k_dim * self.v_dim
        return States(DELTA, layers, trail, self.kernel - 1, state)


@dataclass(frozen=True, slots=True)
class ConvSizes:
    """Sizes of short convolutions: channels, and the width in tokens."""

    channels: int
    kernel: int

    def states(self, layers: int) -> States:
        """Return what ``layers`` such layers remember: the inputs of the newest tokens."""
        return States(CONV, layers, self.channels, self.kernel - 1)


@dataclass(frozen=True, slots=True)
class Recurrent:
    """The kind of each layer, and the sizes of the recurrent ones, all of one kind."""

    kinds: tuple[str, ...]
    delta: DeltaSizes | None = None
    conv: ConvSizes | None = None

    @property
    def states(self) -> tuple[States, ...]:
        """Kinds of states that the layers keep; empty if all are attention."""
        return tuple(
            sizes.states(self.kinds.count(kind))
            for kind, sizes in ((DELTA, self.delta), (CONV, self.conv))
            if sizes is not None and kind in self.kinds
        )


def read_recurrent(
    keys: MetadataKeys, architecture: Architecture, layers: int, hidden: int
) -> Recurrent | None:
    """Read the kinds of the layers; None for an architecture without recurrent ones.

    Raises BadFileError or UnsupportedError.
    """
    match architecture.recurrent:
        case "delta":
            period = keys.size("full_attention_interval", _DELTA_PERIOD)
            kinds = tuple(DELTA if (layer + 1) % period else ATTENTION for layer in range(layers))
            found = Recurrent(kinds, delta=delta_sizes(keys))
        case "conv":
            heads = keys.get("attention.head_count_kv")
            kinds = _kinds_by_heads(heads, layers) if isinstance(heads, list) else (ATTENTION,) * layers
            found = Recurrent(kinds, conv=ConvSizes(hidden, _kernel(keys, "shortconv.l_cache")))
        case _:
            return None
    if ATTENTION not in found.kinds:
        raise UnsupportedError(_NO_ATTENTION)
    return found


def key_heads(keys: MetadataKeys, architecture: Architecture, heads: int) -> int:
    """Return the number of key heads of the layers with attention; a list has 0 for convolutions.

    Raises BadFileError or UnsupportedError.
    """
    stated = keys.get("attention.head_count_kv")
    if not isinstance(stated, list) or architecture.recurrent != CONV:
        return keys.size("attention.head_count_kv", heads)
    found = {count for count in stated if type(count) is int and count > 0}
    if not found:
        raise UnsupportedError(_NO_ATTENTION)
    if len(found) > 1:
        raise UnsupportedError(
            "the model has layers with different numbers of key heads, which is not supported"
        )
    return found.pop()


def nextn_layers(keys: MetadataKeys, architecture: Architecture, blocks: int) -> int:
    """Return how many of the last layers predict further tokens. Raises BadFileError or UnsupportedError."""
    if not keys.get("nextn_predict_layers"):
        return 0
    if architecture.recurrent != DELTA:
        raise UnsupportedError(f"{architecture.name} models with layers for further tokens are not supported")
    count = keys.size("nextn_predict_layers")
    if count >= blocks:
        raise BadFileError(f"the model has {count} layers for further tokens, and none beside them")
    return count


def _kinds_by_heads(heads: list[object], layers: int) -> tuple[str, ...]:
    """Return the kinds of layers from the number of key heads of each, 0 for a convolution."""
    counts = [count for count in heads if type(count) is int and 0 <= count < _MOST_HEADS]
    if len(heads) != layers or len(counts) != layers:
        raise BadFileError("attention.head_count_kv of the model does not fit the layers")
    return tuple(ATTENTION if count else CONV for count in counts)


def delta_sizes(keys: MetadataKeys) -> DeltaSizes:
    """Read the sizes of Gated DeltaNet layers. Raises BadFileError or UnsupportedError."""
    inner, v_heads = keys.size("ssm.inner_size"), keys.size("ssm.time_step_rank")
    k_heads, k_dim = keys.size("ssm.group_count"), keys.size("ssm.state_size")
    if inner % v_heads or v_heads % k_heads:
        raise BadFileError(
            f"the model's recurrent layers have {inner} values in {v_heads} heads, and {k_heads} key heads"
        )
    if (channels := 2 * k_heads * k_dim + inner) > _MOST_CHANNELS:
        raise BadFileError(f"the model's recurrent layers have {channels} channels, more than any model")
    if k_dim % 16 or inner // v_heads % 16:
        raise UnsupportedError(
            f"the model has recurrent heads of {k_dim} and {inner // v_heads}, which are not supported",
            hint="multiples of 16 are",
        )
    return DeltaSizes(k_heads, v_heads, k_dim, inner // v_heads, _kernel(keys, "ssm.conv_kernel"))


def _kernel(keys: MetadataKeys, key: str) -> int:
    """Return the width of a convolution."""
    kernel = keys.size(key)
    if not 2 <= kernel <= _MOST_TAPS:
        raise UnsupportedError(f"the model has convolutions over {kernel} tokens, which are not supported")
    return kernel
