"""SHA-256. ``hashlib`` loads OpenSSL, which takes milliseconds of a start; only long texts are worth it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import hashlib
    from hashlib import sha256
else:
    try:
        from _sha2 import sha256
    except ImportError:  # Python 3.11
        try:
            from _sha256 import sha256
        except ImportError:  # a Python that was built without
            from hashlib import sha256

_LONG = 1 << 20


def sha256_hex(data: bytes) -> str:
    """Return the digest of a short text in hexadecimal."""
    return sha256(data).hexdigest()


def sha256_for(nbytes: int) -> hashlib._Hash:
    """Return what computes the digest of so many bytes, which it is given in pieces."""
    if nbytes <= _LONG:
        return sha256()
    import hashlib

    return hashlib.sha256()
