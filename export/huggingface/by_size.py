"""Chooses the formats of a directory's matrices so that the whole bundle has at most a size."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace

from edgedec.bundle.manifest import Scalar
from edgedec.core.errors import UsageError
from edgedec.core.progress import Progress
from edgedec.core.units import size
from edgedec.export.bundle import Contents, bytes_beside_weights
from edgedec.export.calibration.choice import LADDER, choose, show_formats
from edgedec.export.calibration.gradients import check_able
from edgedec.export.calibration.harm import WINDOW, WINDOWS, harms
from edgedec.export.calibration.moments import SAMPLE, sample
from edgedec.export.graph import build_graph
from edgedec.export.huggingface.source import HuggingFaceSource
from edgedec.export.model import ExportModel, PackedWeight
from edgedec.export.passes import DEFAULT_PASSES, run_passes
from edgedec.export.passes.externalise_weights import alignment
from edgedec.export.tensors import Tensors
from edgedec.export.writer import weights_bytes

FORMATS_FACT = "formats"
"""Key of a manifest's source: the format of each matrix, where they were chosen one by one."""
_ORIGIN_BYTES = 16 << 10
"""Most bytes of a manifest's facts about the source, which are not known yet."""


class BundleSizes:
    """Bytes of the bundles that a source can become."""

    def __init__(self, source: HuggingFaceSource, contents: Contents) -> None:
        self._source, self._contents = source, contents

    def whole(self, formats: Mapping[str, str]) -> int:
        """Return a bound of the bytes of a bundle whose matrices have ``formats``, and set these."""
        self._source.set_formats(formats)
        model = self._fused()
        return weights_bytes(model) + bytes_beside_weights(self._contents, model) + _ORIGIN_BYTES

    def of_matrices(self) -> dict[str, dict[str, float]]:
        """Return the bytes of each matrix in each format."""
        found: dict[str, dict[str, float]] = {}
        for weight in self._fused().weights.values():
            if isinstance(weight, PackedWeight):
                sums = found.setdefault(weight.tensor.name, dict.fromkeys(LADDER, 0.0))
                for format in LADDER:
                    kind = weight.tensor.unwritten(weight.tensor.name, weight.tensor.shape, format)
                    step = alignment(weight)
                    sums[format] += -(-replace(weight, tensor=kind).nbytes // step) * step
        return found

    def _fused(self) -> ExportModel:
        model = build_graph(self._contents.hyper, Tensors(self._source))
        run_passes(model, DEFAULT_PASSES)
        return model


def set_formats_within(
    limit: int, source: HuggingFaceSource, contents: Contents, text: str | None, report: Progress
) -> dict[str, Scalar]:
    """Set the formats of ``source``, and return the manifest's facts about them.

    ``text`` is what predictions are measured on; None: a text that comes with the exporter.

    Raises UsageError for a size that is too small, UnsupportedError for layers of other kinds.
    """
    model = build_graph(contents.hyper, Tensors(source))
    check_able(model)
    sizes = BundleSizes(source, contents)
    matrices = sizes.of_matrices()
    least, most = (sizes.whole(dict.fromkeys(matrices, format)) for format in (LADDER[0], LADDER[-1]))
    if limit < least:
        raise UsageError(
            f"no formats make this bundle as small as {size(limit)}",
            hint=f"it has between {size(least)} ({LADDER[0]}) and {size(most)} ({LADDER[-1]})",
        )
    facts: dict[str, Scalar] = {"quant": f"at most {size(limit)}"}
    if limit >= most:
        return facts | {FORMATS_FACT: show_formats(dict.fromkeys(matrices, LADDER[-1]))}
    bos = contents.texts.info.bos_id if contents.texts.info.add_bos else None
    text = SAMPLE.read_text(encoding="utf-8") if text is None else text
    windows = sample(text, contents.texts.json, bos, min(WINDOW, contents.hyper.context))
    windows = windows[:: -(-len(windows) // WINDOWS)]
    found = harms(
        model,
        lambda weight, start, stop: source.floats(weight.tensor, start, stop),
        windows,
        source.importance,
        lambda done, total: report("formats", done, total),
    )
    room = limit - least + sum(int(matrix[LADDER[0]]) for matrix in matrices.values())
    chosen = choose(found, matrices, room)
    while (over := sizes.whole(chosen) - limit) > 0:  # graphs state each format that they use
        room -= over
        chosen = choose(found, matrices, room)
    return facts | {
        FORMATS_FACT: show_formats(chosen),
        "expected divergence": round(sum(found[name][chosen[name]] for name in chosen), 6),
        "sha256 of the text of the formats": hashlib.sha256(text.encode()).hexdigest(),
    }
