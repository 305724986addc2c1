"""CSampling values for the native engine."""

from __future__ import annotations

import ctypes
from dataclasses import fields

from edgedec.bundle.preset import SamplingValues
from edgedec.native.structs import CSampling
from edgedec.sampling import DrawParams


def struct_of(params: DrawParams) -> CSampling:
    """Return the struct with these values; it keeps the arrays that it refers to."""
    count = len(params.logit_bias)
    tokens = (ctypes.c_int32 * count)(*(token for token, _ in params.logit_bias))
    values = (ctypes.c_double * count)(*(value for _, value in params.logit_bias))
    named = {field.name: getattr(params, field.name) for field in fields(SamplingValues)}
    found = CSampling(ctypes.sizeof(CSampling), count, params.seed, **named)
    found.bias_tokens, found.bias_values = tokens, values
    return found
