"""The roofline of decoding: each token's bytes come from memory, and that has a bandwidth."""

from __future__ import annotations

from edgedec.core.quick_dataclass import dataclass

_GB = 1e9


@dataclass(frozen=True, slots=True)
class Roofline:
    """The bytes read for a token, beside the bandwidth of this machine."""

    bytes_per_token: float
    tokens_per_s: float
    """Measured."""
    bandwidth_gb_per_s: float

    @property
    def gb_per_s(self) -> float:
        """Bytes that were read in a second."""
        return self.bytes_per_token * self.tokens_per_s / _GB

    @property
    def roof_tokens_per_s(self) -> float:
        """Tokens per second if nothing but these bytes took time."""
        return self.bandwidth_gb_per_s * _GB / self.bytes_per_token

    @property
    def share(self) -> float:
        """Share of the roofline that was reached.

        Above 1 where the processor's caches held some of the bytes, or other load lowered the bandwidth.
        """
        return self.tokens_per_s / self.roof_tokens_per_s

    def as_json(self) -> dict[str, float]:
        return {
            "bytes_per_token": round(self.bytes_per_token),
            "gb_per_s": round(self.gb_per_s, 3),
            "bandwidth_gb_per_s": round(self.bandwidth_gb_per_s, 3),
            "roof_tokens_per_s": round(self.roof_tokens_per_s, 3),
            "share": round(self.share, 4),
        }
