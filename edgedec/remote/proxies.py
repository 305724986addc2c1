"""Say in words that a proxy of the environment cannot be used.

No message holds its address, which may have a password.
"""

from __future__ import annotations

SOCKS_HINT = "`pip install socksio`, or name an HTTP proxy in ALL_PROXY"
OTHER_HINT = "name an HTTP proxy in ALL_PROXY and HTTPS_PROXY, or none"


def proxy_fault(error: Exception) -> tuple[str, str] | None:
    """Return the reason and a hint if an HTTP client refused its proxy; None for another error."""
    text = str(error).lower()
    if isinstance(error, ImportError) and "socks" in text:
        return "the environment names a SOCKS proxy, for which a package is missing", SOCKS_HINT
    if type(error).__name__ == "InvalidURL" or (isinstance(error, ValueError) and "proxy" in text):
        return "the environment names a proxy that is no HTTP or SOCKS5 proxy", OTHER_HINT
    return None
