"""Graph passes, one a file, and the order in which they run."""

from __future__ import annotations

from edgedec.export.passes.attach_bodies import AttachBodies
from edgedec.export.passes.externalise_weights import ExternaliseWeights
from edgedec.export.passes.fuse_gated_mlp import FuseGatedMlp
from edgedec.export.passes.fuse_qkv import FuseQkv
from edgedec.export.passes.fuse_residual import FuseResidual
from edgedec.export.passes.infra import Pass, PassError, run_passes
from edgedec.export.passes.return_new_kv import ReturnNewKv
from edgedec.export.passes.return_states import ReturnStates

DEFAULT_PASSES: tuple[Pass, ...] = (
    FuseQkv(),
    FuseGatedMlp(),
    FuseResidual(),
    ReturnNewKv(),
    ReturnStates(),
    AttachBodies(),
    ExternaliseWeights(),
)

__all__ = ["DEFAULT_PASSES", "Pass", "PassError", "run_passes"]
