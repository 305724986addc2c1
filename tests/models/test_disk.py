"""Room for a download: that of the file, and of its bundle, which may be larger."""

from __future__ import annotations

from collections import namedtuple
from pathlib import Path

import pytest
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

from edgedec.core.errors import StorageError
from edgedec.kernels.packing.formats import FORMATS, TILE
from edgedec.kernels.packing.recode import packed_format, readable_types
from edgedec.models.disk import bundle_growth, check_space


@pytest.mark.parametrize("type", readable_types())
def test_no_type_grows_more_than_its_name_says(type: str) -> None:
    block, nbytes = GGML_QUANT_SIZES[GGMLQuantizationType[type.upper()]]
    spec = FORMATS[packed_format(type) or ""]
    growth = spec.record_bytes / TILE / spec.record / (nbytes / block)
    assert growth <= bundle_growth(f"model-{type.upper()}.gguf") < 1.3 * growth


def test_a_file_of_grids_needs_more_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage(0, 0, 2_200_000_000))
    check_space(tmp_path, 1_000_000_000)
    with pytest.raises(StorageError, match="not enough space"):
        check_space(tmp_path, 1_000_000_000, growth=bundle_growth("m-IQ2_XXS.gguf"))
