"""SHA-256 of what is short needs no OpenSSL, and is the same."""

from __future__ import annotations

import hashlib
import subprocess
import sys

import pytest

from edgedec.disk.digest import sha256_for, sha256_hex


@pytest.mark.parametrize("data", [b"", b"abc", bytes(range(256)) * 9000], ids=["none", "short", "long"])
def test_it_is_the_digest_of_the_standard_library(data: bytes) -> None:
    known = hashlib.sha256(data).hexdigest()
    digest = sha256_for(len(data))
    for at in range(0, len(data), 1 << 20):
        digest.update(data[at : at + (1 << 20)])
    assert (sha256_hex(data), digest.hexdigest(), digest.digest().hex()) == (known,) * 3


def test_openssl_is_loaded_for_what_is_long() -> None:
    code = (
        "import sys; from edgedec.disk.digest import sha256_for; sha256_for(9)\n"
        "print('_hashlib' in sys.modules); sha256_for(1 << 21); print('_hashlib' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
