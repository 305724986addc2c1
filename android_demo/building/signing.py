"""Signatures: with the user's key, or with one for trying out that is made on the spot."""

from __future__ import annotations

import os
from pathlib import Path

from building.app import MIN_SDK
from building.tools import BuildError, require, run, say

PASSWORD = "EDGEDEC_KEYSTORE_PASSWORD"
_TRIAL_PASSWORD = "android"
_NAME = "CN=Android Debug,O=Android,C=US"


def trial_key(path: Path) -> Path:
    """Return a keystore for trying out; make it where there is none."""
    require("keytool")
    if not path.is_file():
        say(f"making a key for trying out: {path.name}")
        flags = ["-storetype", "PKCS12", "-keyalg", "RSA", "-keysize", "2048", "-validity", "10000"]
        names = ["-alias", "androiddebugkey", "-dname", _NAME]
        secret = ["-storepass", _TRIAL_PASSWORD, "-keypass", _TRIAL_PASSWORD]
        run(["keytool", "-genkeypair", "-keystore", path, *flags, *names, *secret])
    return path


def sign(unsigned: Path, signed: Path, keystore: Path | None, trial: Path) -> str:
    """Sign an APK, with the user's keystore if there is one; return what ``apksigner verify`` says of it."""
    require("apksigner")
    if keystore is None:
        store, password = trial_key(trial), _TRIAL_PASSWORD
    else:
        if not keystore.is_file():
            raise BuildError(f"there is no keystore {keystore}")
        store, password = keystore, os.environ.get(PASSWORD, "")
        if not password:
            raise BuildError(f"set the environment variable {PASSWORD} to the password of {keystore}")
    say(f"signing with {store.name}")
    schemes = [
        "--v1-signing-enabled",
        "false",
        "--v2-signing-enabled",
        "true",
        "--v3-signing-enabled",
        "true",
    ]
    flags: list[str | Path] = [
        "--ks",
        store,
        "--ks-pass",
        "stdin",
        "--min-sdk-version",
        MIN_SDK,
        *schemes,
        "--out",
        signed,
    ]
    run(["apksigner", "sign", *flags, unsigned], secret=password + "\n")
    signed.with_name(signed.name + ".idsig").unlink(missing_ok=True)
    return run(["apksigner", "verify", "--verbose", "--min-sdk-version", MIN_SDK, signed])
