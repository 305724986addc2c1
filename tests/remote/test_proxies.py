"""A proxy of the environment that cannot be used: one line, without its address."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from edgedec.core.errors import DownloadError, EdgeDecError
from edgedec.models.recipes import HubFile
from edgedec.models.sources.hub_errors import plain_errors
from edgedec.models.sources.pip_config import PipConfig
from edgedec.models.sources.web import Web
from edgedec.remote.proxies import proxy_fault

SECRET = "user:secret@localhost:1"


def failing(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "no_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("ALL_PROXY", proxy)


def without_socks() -> bool:
    try:
        import socksio  # noqa: F401
    except ImportError:
        return True
    return False


@pytest.mark.parametrize("scheme", ["socks5", "socks5h", "socks", "ftp"])
def test_a_proxy_that_cannot_be_used_is_one_line(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if scheme.startswith("socks5") and not without_socks():
        pytest.skip("socksio is installed, and the proxy can be used")
    failing(f"{scheme}://{SECRET}", monkeypatch)
    told: list[EdgeDecError] = []
    with pytest.raises(DownloadError) as caught, Web(PipConfig()) as web:
        web.client("https://pypi.example/simple")
    told.append(caught.value)
    with pytest.raises(DownloadError) as caught, plain_errors(HubFile("o/r")):
        httpx.Client()
    told.append(caught.value)
    for error in told:
        assert "proxy" in error.message
        assert "secret" not in str(error)
        assert "ALL_PROXY" in (error.hint or "")
    if scheme.startswith("socks5"):
        assert "socksio" in (told[0].hint or "")


@pytest.mark.parametrize("error", [ImportError("no module named x"), ValueError("no number"), OSError("x")])
def test_other_faults_are_not_blamed_on_a_proxy(error: Exception, tmp_path: Path) -> None:
    assert proxy_fault(error) is None
