"""Talks to a phone through adb, the debug bridge of Android's platform tools."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from edgedec.core.errors import BackendError, NotFoundError, StorageError

_ANSWER_S = 60.0
"""Longest wait for a command that does next to nothing; starting adb's server is part of it."""
_HASHED_A_SECOND = 4_000_000
"""Bytes that the slowest phone hashes in a second."""
_LOOK_S, _STALLED_S = 2.0, 60.0
"""Time between two looks at a file that is sent, and after which one that does not grow is given up."""
_SHA256 = re.compile(r"([0-9a-f]{64}) [ *](.+)")
_HINTS = {
    "no devices": "connect a phone, and switch on USB debugging in its developer options",
    "unauthorized": "allow this computer on the phone's screen",
    "more than one": "set ANDROID_SERIAL to one that `adb devices` lists",
    "offline": "connect the phone again",
}
"""Words in adb's messages, and how to mend what they say."""


class Adb:
    """One phone, by adb's own rules: the only one that is connected, or that of ANDROID_SERIAL."""

    def __init__(self) -> None:
        """Raises NotFoundError where there is no adb, or no phone that answers."""
        program = shutil.which("adb")
        if program is None:
            raise NotFoundError("adb is not on the PATH", hint="it is part of Android's platform tools")
        self._program = program
        done = self._run("get-state", seconds=_ANSWER_S)
        state = done.stdout.strip()
        if done.returncode or state != "device":
            said = _said(done) if done.returncode else f"the phone is in the state {state[:40]!r}"
            hint = next((hint for words, hint in _HINTS.items() if words in said), "see `adb devices`")
            raise NotFoundError(f"adb reaches no phone: {said}", hint=hint)

    def succeeds(self, script: str) -> bool:
        """Whether a script of the phone's shell ends well."""
        return self._shell(script).returncode == 0

    def output(self, script: str) -> str:
        """Return what a script of the phone's shell prints. Raises BackendError where it fails."""
        done = self._shell(script)
        if done.returncode:
            raise BackendError(f"the phone refused: {_said(done)}", hint="look at the phone, and try again")
        return done.stdout

    def free_bytes(self, folder: str) -> int | None:
        """Return the free bytes of the disk with ``folder``; None where the phone does not say."""
        fields = self.output(f"df -k {folder} || true").splitlines()[-1:]
        parts = fields[0].split() if fields else []
        return int(parts[3]) * 1024 if len(parts) > 4 and parts[3].isdecimal() else None

    def sha256(self, folder: str, sizes: Mapping[str, int]) -> dict[str, str]:
        """Return the hash of each file of ``sizes`` that is in ``folder``; ``sizes`` are in bytes."""
        found: dict[str, str] = {}
        for names in _groups(list(sizes), 50):
            script = f"cd {folder} 2>/dev/null && sha256sum {' '.join(names)} 2>/dev/null; true"
            seconds = _ANSWER_S + sum(sizes[name] for name in names) / _HASHED_A_SECOND
            for line in self._shell(script, seconds).stdout.splitlines():
                match = _SHA256.fullmatch(line.rstrip("\r"))
                if match and match[2] in sizes:
                    found[match[2]] = match[1]
        return found

    def push(self, source: Path, target: str, arrived: Callable[[int], None]) -> None:
        """Send a file; ``arrived`` hears now and then how many bytes of it are there.

        Raises StorageError for a full phone, BackendError for a transfer that fails or stands still.
        """
        command = [self._program, "push", str(source), target]
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as process:
            try:
                said = self._followed(process, target, arrived)
            finally:
                process.kill()
        if process.returncode == 0:
            return
        line = _fault_in(said.decode("utf-8", "replace"))
        if "space left" in line.lower():
            raise StorageError(
                f"no space is left on the phone for {source.name}", hint="free some, and go on"
            )
        raise BackendError(f"{source.name} could not be sent: {line}", hint="the same command goes on")

    def _followed(
        self, process: subprocess.Popen[bytes], target: str, arrived: Callable[[int], None]
    ) -> bytes:
        """Wait for a transfer while it grows, and return what it printed. Raises BackendError."""
        size, still = -1, 0.0
        while still < _STALLED_S:
            try:
                return process.communicate(timeout=_LOOK_S)[0]
            except subprocess.TimeoutExpired:
                before, size = size, self._size(target)
                still = 0.0 if size > before else still + _LOOK_S
                arrived(max(size, 0))
        raise BackendError(
            f"nothing of {target} arrived for {_STALLED_S:.0f} s", hint="the same command goes on"
        )

    def _size(self, target: str) -> int:
        text = self._shell(f"stat -c %s {target} 2>/dev/null").stdout.strip()
        return int(text) if text.isdecimal() else -1

    def _shell(self, script: str, seconds: float = _ANSWER_S) -> subprocess.CompletedProcess[str]:
        return self._run("shell", script, seconds=seconds)

    def _run(self, *arguments: str, seconds: float) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                [self._program, *arguments],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise BackendError(
                f"adb gave no answer for {seconds:.0f} s", hint="connect the phone again"
            ) from error
        except OSError as error:
            raise BackendError(f"adb does not run: {error.strerror}", hint="install it again") from error


def _said(done: subprocess.CompletedProcess[str]) -> str:
    return _fault_in(done.stderr.strip() or done.stdout)


def _fault_in(said: str) -> str:
    """Return the line of adb's output that says what is wrong."""
    lines = said.strip().splitlines() or ["it does not say why"]
    line = next((line for line in lines if "error" in line or line.startswith("adb:")), lines[-1])
    return line.strip().removeprefix("adb: ").removeprefix("error: ")


def _groups(names: Sequence[str], size: int) -> list[Sequence[str]]:
    return [names[start : start + size] for start in range(0, len(names), size)]
