"""Options of a body in Ollama's form, as sampling values and limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgedec.core.quick_dataclass import dataclass
from edgedec.sampling.named import SamplingParams
from edgedec.server.wire.body import Refusal, short
from edgedec.server.wire.errors import invalid
from edgedec.server.wire.limits import stops_of
from edgedec.server.wire.sampling import NAMES, sampling_of

_LOADING = frozenset(
    {
        "embedding_only", "f16_kv", "logits_all", "low_vram", "main_gpu", "num_batch", "num_ctx", "num_gpu",
        "num_keep", "num_thread", "numa", "use_mlock", "use_mmap", "vocab_only",
    }
)  # fmt: skip
"""Options of loading a model, which the command line of the server states."""
_RENAMED = {"typical_p": "typical", "repeat_penalty": "repetition_penalty"}
_REFUSED = {
    "penalize_newline": Refusal("newlines are tokens as others", True),
    "repeat_last_n": Refusal("repeat_penalty looks at the whole reply and its prompt", -1),
    "tfs_z": Refusal("use min_p or typical_p", 1),
}
_TAU_BITS = 5.0
"""Surprise that mirostat holds where no other is named."""


@dataclass(frozen=True, slots=True)
class AskedOptions:
    """How replies are drawn, and when they end."""

    sampling: SamplingParams
    max_tokens: int | None
    stop: tuple[str, ...]


def options_of(given: Mapping[str, Any] | None) -> AskedOptions:
    """Return options; those of loading a model are left out. Raises ApiError for the first that is wrong."""
    values = {name: value for name, value in (given or {}).items() if value is not None}
    stop = stops_of(values.pop("stop", None), "options.stop")
    most = values.pop("num_predict", None)
    if most is not None and (isinstance(most, bool) or not isinstance(most, int)):
        raise invalid("options.num_predict should be a number of tokens", "options.num_predict")
    sampling = {**_mirostat(values), **_named(values)}
    return AskedOptions(sampling_of(sampling), None if most is None or most < 0 else most, stop)


def _mirostat(values: dict[str, Any]) -> dict[str, Any]:
    """Take mirostat's options out; version 2 alone is known."""
    version, tau = values.pop("mirostat", 0), values.pop("mirostat_tau", _TAU_BITS)
    eta = values.pop("mirostat_eta", None)
    if version not in (0, 2):
        raise invalid("options.mirostat should be 0 or 2", "options.mirostat", "unsupported_parameter")
    if not version:
        return {}
    return {"mirostat": tau} | ({} if eta is None else {"mirostat_eta": eta})


def _named(values: Mapping[str, Any]) -> dict[str, Any]:
    found = {}
    for name, value in values.items():
        own = _RENAMED.get(name, name)
        refusal = _REFUSED.get(name)
        if name in _LOADING or (name == "repeat_last_n" and values.get("repeat_penalty", 1) == 1):
            continue
        if refusal and value in refusal.neutral:
            continue
        if refusal:
            words = f"options.{name} is not supported: {refusal.why}"
            raise invalid(words, f"options.{name}", "unsupported_parameter")
        if own not in NAMES:
            raise invalid(f"unknown option {short(name)}", f"options.{short(name)}", "unknown_parameter")
        if value == -1 and name in ("seed", "top_k"):  # no seed, and no bound
            continue
        found[own] = value
    return found
