"""A model on another machine, behind an OpenAI-compatible server, that continues texts.

address        the server that the user named, and the key from the environment
completions    requests and answers of the two endpoints
transfer       one streamed request, within limits of time and bytes
continuing     whether a text continues another one or repeats it
side           ``RemoteSide``, which the layers above use
talk           ``ServerTalk``: a conversation that the server has the tokens of

Every fault becomes one error, ``SideLost``, with a reason that the user can read. Nothing is sent before a
method of ``RemoteSide`` is called, and nothing to a host other than the one named.
"""

from edgedec.remote.address import KEY_VARIABLE, ServerAddress
from edgedec.remote.side import RemoteSide
from edgedec.remote.transfer import RemoteLimits

__all__ = ["KEY_VARIABLE", "RemoteLimits", "RemoteSide", "ServerAddress"]
