"""A model on another machine, behind an OpenAI-compatible server, that continues texts.

address        the server that the user named, and the key from the environment
allowance      time limits, and a budget of requests and bytes for one conversation
events         server-sent events out of blocks of bytes
completions    requests and answers of the two endpoints
transfer       one streamed request in a thread of its own, with retries before the first byte
continuing     whether a text continues another one or repeats it
side           ``RemoteSide``, which the layers above use

Every fault becomes one error, ``SideLost``, with a reason that the user can read. Nothing is sent before a
method of ``RemoteSide`` is called, and nothing to a host other than the one named.
"""

from edgedec.remote.address import KEY_VARIABLE, ServerAddress
from edgedec.remote.allowance import RemoteLimits, RemoteUse
from edgedec.remote.side import RemoteSide

__all__ = ["KEY_VARIABLE", "RemoteLimits", "RemoteSide", "RemoteUse", "ServerAddress"]
