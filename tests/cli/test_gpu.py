"""``--device gpu``: the CPU's replies, and every refusal in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgedec.backends.gpu import adapter as gpus
from edgedec.backends.gpu import opening as placed
from edgedec.backends.gpu.adapter import CHOICE, Adapter
from edgedec.cli.options import DeviceChoiceType
from edgedec.cli.services import Services
from edgedec.core.errors import DeviceLostError
from edgedec.disk.installing import pip_install
from edgedec.models import Store
from tests.cli.support import assert_one_line, ran, run
from tests.fixtures.nightly import diagonal
from tests.fixtures.tiny_models import tiny_bundle
from tests.gpu.adapters import adapter

SOFT = Adapter("llvmpipe (LLVM 15)", "software", "Vulkan")


@pytest.fixture
def services(tmp_path: Path) -> Services:
    return Services(store=lambda: Store(tmp_path / "home"))


@pytest.fixture
def ask(tmp_path: Path) -> list[str]:
    bundle = str(tiny_bundle(tmp_path))
    return ["generate", "-m", bundle, "-p", "a b a b", "--raw", "--max-tokens", "6", "--context", "64"]


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the adapter of this machine, a software one too, the only one."""
    one = adapter()
    monkeypatch.setattr(placed, "adapters", lambda: [one])
    monkeypatch.setenv(CHOICE, one.name)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("drafts", "more"),
    diagonal(["off", "lookup,recycling"], ["--temperature 0", "--temperature 0.8 --seed 3"]),
)
def test_replies_are_those_of_the_cpu(services: Services, ask: list[str], drafts: str, more: str) -> None:
    given = [*ask, *more.split(), "--draft", drafts, "--json"]
    alone, there = (run(services, *given, "--device", device) for device in ("cpu", "gpu"))
    assert there.exit_code == 0, there.output
    assert json.loads(there.stdout)["tokens"] == json.loads(alone.stdout)["tokens"]


@pytest.mark.usefixtures("here")
def test_a_lost_gpu_costs_a_line_and_no_token(
    services: Services, ask: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from edgedec.backends.gpu.executor import Executor

    passes = [0]
    real = Executor.run

    def lose(self: Executor, fed: object) -> object:
        passes[0] += 1
        if passes[0] == 3:
            raise DeviceLostError("the GPU Toy was lost: it did not answer for 60 seconds")
        return real(self, fed)  # type: ignore[arg-type]

    given = [*ask, "--temperature", "0", "--draft", "off"]
    alone = run(services, *given)
    monkeypatch.setattr(Executor, "run", lose)
    found = ran(services, *given, "--device", "gpu")
    assert found.stdout == alone.stdout
    assert found.stderr.count("the GPU Toy was lost") == 1


@pytest.mark.usefixtures("here")
def test_plan_shows_the_memory_of_the_gpu_and_generate_keeps_to_it(
    services: Services, ask: list[str]
) -> None:
    planned = run(services, "plan", ask[2], "--device", "gpu", "--context", "64", "--json")
    needed = json.loads(planned.stdout)["device"]["planned_bytes"]
    ran(services, *ask, "--device", f"gpu:{needed}")
    refused = run(services, *ask, "--device", f"gpu:{needed - 1}")
    assert_one_line(refused, 10, "of the GPU's memory", "--device gpu:", "--device gpu:1layer or fewer")
    cut = run(services, *ask, "--device", f"gpu:{needed - 1}:1layer", "--json")
    whole = run(services, *ask, "--json")
    assert json.loads(cut.stdout)["tokens"] == json.loads(whole.stdout)["tokens"]


def test_a_software_adapter_must_be_named(
    services: Services, ask: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(CHOICE, raising=False)
    monkeypatch.setattr(placed, "adapters", lambda: [SOFT])
    assert_one_line(run(services, *ask, "--device", "gpu"), 5, "no GPU", f"{CHOICE}=llvmpipe")
    monkeypatch.setenv(CHOICE, "radeon")
    assert_one_line(run(services, *ask, "--device", "gpu"), 2, CHOICE, "llvmpipe")


@pytest.mark.parametrize("command", ["generate", "batch", "serve"])
def test_without_the_package_the_line_says_what_installs_it(
    services: Services, ask: list[str], lines: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(gpus, "import_module", missing)
    monkeypatch.setattr(gpus, "_entry", gpus._entry.__wrapped__)  # the answer of an earlier call is kept
    bundle = Path(ask[2])
    (services.store().home / "models").mkdir(parents=True, exist_ok=True)
    bundle.rename(services.store().home / "models" / "tiny")
    given = {
        "generate": ["generate", "-m", "tiny", "-p", "a"],
        "batch": ["batch", "-m", "tiny", "--input", str(lines)],
        "serve": ["serve", "tiny", "--port", "0"],
    }
    refused = run(services, *given[command], "--device", "gpu")
    assert_one_line(refused, 5, pip_install("gpu"))


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "lines.txt"
    path.write_text("a b a b\nOnce upon a time\n", encoding="utf-8")
    return path


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("drafts", ["off", "lookup,recycling"])
def test_a_batch_has_the_replies_of_the_cpu(
    services: Services, ask: list[str], lines: Path, drafts: str
) -> None:
    given = ["batch", *ask[1:3], "--input", str(lines), *ask[5:], "--draft", drafts, "--json"]
    alone, there = (ran(services, *given, "--device", device) for device in ("cpu", "gpu"))
    said = [[json.loads(line)["tokens"] for line in one.stdout.splitlines()] for one in (alone, there)]
    assert len(said[0]) == 2
    assert said[0] == said[1]


@pytest.mark.usefixtures("here")
def test_a_batch_needs_all_layers_in_one_place(services: Services, ask: list[str], lines: Path) -> None:
    given = ["batch", *ask[1:3], "--input", str(lines), *ask[5:], "--device", "gpu:1layers"]
    refused = run(services, *given)
    assert_one_line(refused, 5, "one conversation at a time", "--device gpu without layers, or --batch 1")
    assert ran(services, *given, "--batch", "1").stdout == ran(services, *given[:-2]).stdout


def test_options_of_a_gpu_need_one(services: Services, ask: list[str]) -> None:
    gone = run(services, *ask, "--device", "gpu", "--gpu-layers", "1")
    assert_one_line(gone, 2, "no such option: --gpu-layers", "give --device gpu:14layers")
    for study in ("kernels", "report"):  # they measure a device, without a bound on its memory
        assert_one_line(run(services, "bench", study, "--device", "gpu:1GB"), 2, "--device")
    none = "cpu:1GB npu:1GB tpu gpu: gpu:much gpu:1GB:1GB gpu:0layers gpu:1layer:2layers"
    more = "gpu:layers gpu:-1layers gpu:1GB: gpu:14 cpu:1layer gpu:2layers:much"
    for device in f"{none} {more}".split():
        assert_one_line(run(services, *ask, "--device", device), 2, "--device")
    gone = run(services, *ask, "--device", "gpu", "--device-memory", "1GB")
    assert_one_line(gone, 2, "no such option: --device-memory", "give --device gpu:SIZE")


@pytest.mark.usefixtures("here")
def test_several_conversations_need_all_layers_in_one_place(services: Services, ask: list[str]) -> None:
    given = ["plan", *ask[1:3], "--context", "64", "--device", "gpu", "--json"]
    one, two = (run(services, *given, "--batch", count) for count in ("1", "2"))
    parts = [json.loads(result.stdout)["device"]["parts"] for result in (one, two)]
    assert parts[1]["kv_cache"] == 2 * parts[0]["kv_cache"]
    assert parts[1]["weights"] == parts[0]["weights"]
    split = run(services, *given, "--batch", "2", "--device", "gpu:1layers")
    assert_one_line(split, 5, "one conversation at a time", "--device gpu without layers, or --batch 1")


@pytest.mark.parametrize(
    ("text", "memory", "layers"),
    [
        ("gpu", None, None),
        ("gpu:2GB", 2_000_000_000, None),
        ("gpu:14layers", None, 14),
        ("gpu:1layer", None, 1),
        ("gpu:14layers:2GB", 2_000_000_000, 14),
        ("gpu:2GB:14layers", 2_000_000_000, 14),
    ],
)
def test_bounds_of_a_gpu_come_behind_colons(text: str, memory: int | None, layers: int | None) -> None:
    given = DeviceChoiceType().convert(text, None, None)
    assert given.settings() == {"device": "gpu", "device_memory": memory, "gpu_layers": layers}
