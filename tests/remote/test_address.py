"""Addresses of servers: what they may hold, and when a key is sent."""

from __future__ import annotations

import pytest

from edgedec.core.errors import UsageError
from edgedec.remote import KEY_VARIABLE, RemoteLimits, ServerAddress


@pytest.mark.parametrize(
    ("url", "root"),
    [
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080/v1"),
        ("http://[::1]:8080/v1/", "http://[::1]:8080/v1"),
        (" https://api.example.org/openai/v1 ", "https://api.example.org/openai/v1"),
        ("http://localhost", "http://localhost/v1"),
    ],
)
def test_a_root_is_the_url_or_its_v1(url: str, root: str) -> None:
    assert ServerAddress.of(url, {}).root == root


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("127.0.0.1:8080", "is no address"),
        ("ftp://127.0.0.1", "is no address"),
        ("http://", "is no address"),
        ("http://a:b:c", "is no address"),
        ("http://127.0.0.1:99999", "is no address"),
        ("http://host/\x1b[2J", "is no address"),
        ("http://me:secret@host", "no password"),
        ("http://host/v1?key=secret", "after its path"),
    ],
)
def test_other_texts_are_refused_without_their_secrets(url: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason) as raised:
        ServerAddress.of(url, {})
    assert "secret" not in str(raised.value)


def test_a_key_goes_to_another_machine_only_encrypted() -> None:
    with pytest.raises(UsageError, match=r"would go to 10\.0\.0\.7 unencrypted"):
        ServerAddress.of("http://10.0.0.7:8000", {KEY_VARIABLE: "k"})
    for url in ("https://10.0.0.7:8000", "http://127.0.0.2", "http://localhost:1", "http://[::1]"):
        assert ServerAddress.of(url, {KEY_VARIABLE: " k\n"}).key == "k"
    assert ServerAddress.of("http://10.0.0.7:8000", {}).key is None


@pytest.mark.parametrize("key", ["a\nb", "schlüssel", "x" * 5000])
def test_a_key_that_no_header_can_have_is_refused_unseen(key: str) -> None:
    with pytest.raises(UsageError, match=KEY_VARIABLE) as raised:
        ServerAddress.of("http://localhost", {KEY_VARIABLE: key})
    assert key not in str(raised.value)


@pytest.mark.parametrize("name", ["connect_s", "read_s", "total_s"])
def test_limits_are_above_zero(name: str) -> None:
    with pytest.raises(UsageError, match=name):
        RemoteLimits(**{name: 0})
