"""The recipes are data: well-formed, and never at odds with each other."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from edgedec.models import DEFAULT_MODEL, RECIPES, Recipe
from edgedec.models.layout import slug


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES.keys())
def test_a_recipe_is_complete(recipe: Recipe) -> None:
    assert RECIPES[recipe.name] is recipe
    assert slug(recipe.name) == recipe.name.lower()
    assert re.fullmatch(r"[0-9a-f]{64}", recipe.sha256)
    assert recipe.bytes > 90_000_000
    assert recipe.wheels
    assert len({wheel.distribution for wheel in recipe.wheels}) == len(recipe.wheels)
    assert recipe.licence.url.startswith("https://")


def test_the_default_is_the_smallest() -> None:
    assert RECIPES[DEFAULT_MODEL].bytes == min(recipe.bytes for recipe in RECIPES.values())


def test_pieces_are_numbered_in_order() -> None:
    numbers = [re.findall(r"\d+", wheel.member)[-1] for wheel in RECIPES["qwen2.5-coder-1.5b"].wheels]
    assert numbers == [f"{part:02d}" for part in range(1, 23)]
    numbers = [re.findall(r"\d+", wheel.member)[-1] for wheel in RECIPES["gemma3-270m"].wheels]
    assert numbers == ["00", "01", "02", "03"]


def test_gemma_shows_its_terms() -> None:
    licence = RECIPES["gemma3-270m"].licence
    assert "Gemma" in licence.name
    assert "accept" in (licence.notice or "")


def test_looking_up_an_installed_model_loads_no_heavy_library(tmp_path: object) -> None:
    """Start-up time: what is installed is found with the standard library alone."""
    program = (
        "import sys, pathlib\n"
        "from edgedec.models import Store\n"
        "home = pathlib.Path(sys.argv[1]); bundle = home / 'models' / 'smollm2-135m'\n"
        "bundle.mkdir(parents=True)\n"
        "(bundle / 'manifest.json').write_text('{}')\n"
        "assert Store(home).ensure('smollm2-135m') == bundle\n"
        "heavy = ['httpx', 'huggingface_hub', 'gguf', 'onnx', 'onnxruntime', 'certifi', 'subprocess']\n"
        "print(*[name for name in heavy if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr
