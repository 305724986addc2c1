"""Sampling values of a body: those of ``SamplingParams`` by their names, and the seed."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from edgedec.core.errors import UsageError
from edgedec.sampling.named import SamplingParams
from edgedec.server.wire.body import wrong_field
from edgedec.server.wire.errors import invalid

NAMES = tuple(one.name for one in fields(SamplingParams))
_SEEDS = 1 << 64
_DRAWN_SEEDS = 1 << 53
"""Seeds that every JSON reader keeps exactly."""


@cache
def _adapter() -> TypeAdapter[SamplingParams]:
    return TypeAdapter(SamplingParams)


def sampling_of(given: Mapping[str, Any]) -> SamplingParams:
    """Return the sampling values among ``given``; a seed is drawn where none is given.

    Negative seeds count from 2^64 down. A ``top_p`` of 0 keeps the most probable token alone. Raises ApiError
    for the first value that is wrong.
    """
    values = {name: given[name] for name in NAMES if name in given}
    top_p = values.get("top_p")
    if top_p == 0 and not isinstance(top_p, bool):
        values |= {"top_p": 1, "top_k": 1}
    seed = values.get("seed")
    if isinstance(seed, int) and not isinstance(seed, bool) and -_SEEDS // 2 <= seed < 0:
        values["seed"] = seed + _SEEDS
    for name, value in values.items():
        _checked({name: value}, name)
    sampling = _checked(values, None)
    return sampling if sampling.seed is not None else replace(sampling, seed=secrets.randbelow(_DRAWN_SEEDS))


def _checked(values: Mapping[str, Any], param: str | None) -> SamplingParams:
    try:
        return _adapter().validate_json(json.dumps(values), strict=True)
    except ValidationError as error:
        raise wrong_field(error, field=param) from None
    except UsageError as error:
        raise invalid(str(error), param) from None
