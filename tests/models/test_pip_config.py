"""Learning from pip where to look, without saying passwords aloud."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from edgedec.core.errors import DownloadError
from edgedec.models.sources.pip_config import (
    default_index,
    find_pip,
    parse_config_list,
    read_pip_config,
    redact,
)
from edgedec.models.sources.web import split_credentials


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)


def test_environment_wins_over_download_over_global() -> None:
    text = "\n".join(
        [
            ":env:.index-url='https://env/simple'",
            "download.index-url='https://download/simple'",
            "global.index-url='https://global/simple'",
            "global.timeout='7'",
            "install.timeout='9'",
            "nonsense",
        ]
    )
    assert parse_config_list(text) == {"index-url": "https://env/simple", "timeout": "9"}


def test_a_configuration_file_is_read_through_pip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    certificate = tmp_path / "ca.pem"
    (tmp_path / "pip.conf").write_text(
        "[global]\n"
        "index-url = https://me:p%40ss@index.invalid/simple\n"
        "extra-index-url =\n    https://one.invalid/simple\n    https://two.invalid/simple\n"
        "find-links = /some/where\n"
        "trusted-host = index.invalid\n"
        f"cert = {certificate}\n"
        "proxy = http://proxy.invalid:3128\n"
        "timeout = 42\n"
    )
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    config = read_pip_config()
    assert config.indexes == (
        "https://me:p%40ss@index.invalid/simple",
        "https://one.invalid/simple",
        "https://two.invalid/simple",
    )
    assert config.find_links == ("/some/where",)
    assert (config.cert, config.proxy, config.timeout) == (
        str(certificate),
        "http://proxy.invalid:3128",
        42.0,
    )
    assert config.trusts("https://index.invalid/x")
    assert not config.trusts("https://one.invalid/x")


def test_without_a_configured_index_pip_names_its_default() -> None:
    (index,) = read_pip_config().indexes
    assert index.startswith("https://")
    assert index.rstrip("/").endswith("simple")


def test_no_index_leaves_find_links_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "/wheels")
    config = read_pip_config()
    assert (config.indexes, config.find_links) == ((), ("/wheels",))


def test_help_without_a_default_asks_for_the_variable() -> None:
    with pytest.raises(DownloadError, match="PIP_INDEX_URL"):
        default_index("  -i, --index-url <url>  Base URL.")


def test_no_pip_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgedec.models.sources.pip_config.find_spec", lambda name: None)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(DownloadError, match="pip is not installed"):
        find_pip()


def test_credentials_are_taken_out_of_urls_and_messages() -> None:
    assert split_credentials("https://me:p%40ss@host:8443/simple") == (
        "https://host:8443/simple",
        ("me", "p@ss"),
    )
    assert (
        redact("ERROR: https://me:secret@host/x and http://token@b/") == "ERROR: https://host/x and http://b/"
    )


def test_netrc_is_used_for_its_host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "netrc").write_text("machine host.invalid login me password secret\n")
    (tmp_path / "netrc").chmod(0o600)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    assert split_credentials("https://host.invalid/simple")[1] == ("me", "secret")
    assert split_credentials("https://other.invalid/simple")[1] is None
