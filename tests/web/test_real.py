"""The real engine in a browser: Python's tokens on the CPU and on a GPU, also one that is lost."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import edgedec
from edgedec.bundle.web_folder import WEB
from edgedec.core.errors import NotFoundError
from edgedec.export.device import DeviceOrder, choose_drafters
from edgedec.export.web import write_web_folder
from edgedec.export.web.wasm import FAST, WASM, wasm_path
from tests.fixtures.carried import MtpPlace
from tests.fixtures.real_models import installed
from tests.fixtures.tiny_models import tiny_bundle
from tests.native.test_wasm_drafters import layers
from tests.server.page.acting import ask, ended
from tests.web.acting import fetched, ready
from tests.web.serving import Faults, serving

pytestmark = pytest.mark.slow

QUESTION = "one two one two one two one"
TOKENS, LONG = 24, 120
WAYS = {"greedy": {"temperature": 0}, "sampled": {"temperature": 0.8, "seed": 5}}
LOSE = """() => {
  const { requestDevice } = GPUAdapter.prototype;
  GPUAdapter.prototype.requestDevice = async function (...given) {
    return (globalThis.opened = await requestDevice.apply(this, given));
  };
}"""
FLAT = """() => {
  let now = 0;
  performance.now = () => now;
  const { mapAsync } = GPUBuffer.prototype;
  GPUBuffer.prototype.mapAsync = function (...given) {
    now += 1000;
    return mapAsync.apply(this, given);
  };
}"""
"""A clock that each read-back moves on: all passes cost the same, so every draft pays."""
FLAT_ON_CPU = """() => {
  let now = 0;
  performance.now = () => now;
  const { instantiate } = WebAssembly;
  WebAssembly.instantiate = async (...given) => {
    const { exports } = await instantiate(...given);
    const edgedec_web_compute = (engine) => {
      now += 1000;
      return exports.edgedec_web_compute(engine);
    };
    return { exports: { ...exports, edgedec_web_compute } };
  };
}"""


SIX = "() => Object.defineProperty(navigator, 'hardwareConcurrency', { get: () => 6 })"


@pytest.fixture(scope="module")
def url(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a folder of random weights."""
    place = tmp_path_factory.mktemp("real")
    with serving(_written(tiny, place)) as address:
        yield address


def _written(bundle: Path, place: Path, home: Path | None = None) -> Path:
    """A folder for browsers; with a home it has the drafters of the bundle."""
    try:
        wasm_path()
    except NotFoundError as error:
        pytest.skip(f"{error.message}: {error.hint}")
    drafters = choose_drafters((), bundle, home) if home else ()
    write_web_folder(DeviceOrder(WEB, bundle, drafters, None, home or place), place / "web")
    return place / "web"


@functools.cache
def python_reply(bundle: Path, way: str, draft: str, question: str, tokens: int) -> str:
    """The reply of the Python API."""
    sampling = edgedec.SamplingParams(**WAYS[way])
    messages = [{"role": "user", "content": question}]
    with edgedec.open(bundle, context=256, draft=draft, threads=1) as model:
        return model.chat(messages=messages, sampling=sampling, max_tokens=tokens).reply().read()


def settings(page: Any, way: str, tokens: int) -> None:
    page.click("#open-settings")
    for name, value in {**WAYS[way], "max_tokens": tokens}.items():
        page.fill(f"#sampling-{name}", str(value))
    page.keyboard.press("Enter")


def as_written(page: Any) -> str:
    """The last reply, before it was rendered."""
    page.wait_for_selector("#conversations .current")
    with page.expect_download() as file:
        page.get_by_role("button", name="Export", exact=True).click()
    (conversation,) = json.loads(file.value.path().read_text(encoding="utf-8"))["conversations"]
    return str(conversation["messages"][conversation["tip"]]["text"])


def accepted(page: Any) -> int:
    """The drafted tokens of the last reply."""
    words = page.locator(".figures").last.get_attribute("title")
    found = re.search(r"(\d+) drafted tokens accepted", words)
    return int(found[1]) if found else 0


def begun(page: Any, *, minutes: float = 15) -> None:
    """Load the model, however long a GPU made of software takes to compile on a busy machine."""
    page.set_default_timeout(minutes * 60_000)
    fetched(page)


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_replies_are_those_of_python(opened: Callable[..., Any], url: str, tiny: Path, device: str) -> None:
    with opened(url, gpu=device == "gpu", device=device, accept_downloads=True) as page:
        begun(page)
        assert "those of the CPU's kernels" in page.locator("#device-facts").text_content()
        for draft in ("auto", "off"):
            page.click("#open-device")
            page.set_checked("#draft", draft == "auto")
            page.keyboard.press("Escape")
            for way in WAYS:
                page.keyboard.press("Control+k")
                settings(page, way, TOKENS)
                ask(page, QUESTION)
                assert as_written(page) == python_reply(tiny, way, "off", QUESTION, TOKENS)


def test_drafts_that_a_gpu_verifies_change_no_token(opened: Callable[..., Any], url: str, tiny: Path) -> None:
    with opened(url, gpu=True, device="gpu", accept_downloads=True) as page:
        (worker,) = page.workers
        worker.evaluate(FLAT)
        begun(page)
        for way in WAYS:
            page.keyboard.press("Control+k")
            settings(page, way, LONG)
            ask(page, QUESTION)
            assert accepted(page) > 0
            assert as_written(page) == python_reply(tiny, way, "off", QUESTION, LONG)


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_an_mtp_layer_drafts_on_the_cpu_and_the_page_says_so_on_a_gpu(
    opened: Callable[..., Any], tmp_path: Path, device: str
) -> None:
    place = MtpPlace(tmp_path)
    with (
        serving(_written(place.bundle, tmp_path, place.home)) as url,
        opened(url, gpu=device == "gpu", device=device, accept_downloads=True) as page,
    ):
        (worker,) = page.workers
        worker.evaluate(FLAT if device == "gpu" else FLAT_ON_CPU)
        begun(page)
        mtp = ", mtp" if device == "cpu" else "; mtp on the CPU alone: hidden states"
        names = f"lookup, recycling{mtp}"
        assert f"Drafts by{names}" in page.locator("#device-facts").text_content()
        for way in WAYS:
            page.keyboard.press("Control+k")
            settings(page, way, LONG)
            ask(page, QUESTION)
            assert accepted(page) > 0
            assert as_written(page) == python_reply(place.bundle, way, "off", QUESTION, LONG)


def test_layers_of_the_model_draft_on_a_gpu_and_the_page_says_so(
    opened: Callable[..., Any], tmp_path: Path
) -> None:
    """A trimmed head is reason enough; this adapter's compiler is spared fused kernels."""
    case = layers(tmp_path)
    with (
        serving(case.folder.parent) as url,
        opened(url, gpu=True, device="gpu", accept_downloads=True) as page,
    ):
        begun(page)
        said = page.locator("#device-facts").text_content()
        assert "Drafts bylookup, recycling, exit-4Kept" in said
        assert "gated MLPs take two dispatches" in said
        settings(page, "sampled", TOKENS)
        ask(page, QUESTION)
        assert as_written(page) == python_reply(case.bundle, "sampled", "off", QUESTION, TOKENS)


def test_a_gpu_is_lost_in_the_middle_of_a_reply_and_the_cpu_goes_on_with_the_same_tokens(
    opened: Callable[..., Any], url: str, tiny: Path
) -> None:
    with opened(url, gpu=True, device="gpu", accept_downloads=True) as page:
        (worker,) = page.workers
        worker.evaluate(LOSE)
        begun(page)
        assert "same bits as the CPU" in page.inner_text("#device-words")
        settings(page, "sampled", LONG)
        ask(page, QUESTION, ends=False)
        page.wait_for_function("() => /^\\d+ tokens/.test(document.querySelector('.figures')?.textContent)")
        worker.evaluate("() => globalThis.opened.destroy()")
        ended(page)
        assert page.inner_text("#device-words").startswith("CPU: the GPU was lost")
        assert as_written(page) == python_reply(tiny, "sampled", "off", QUESTION, LONG)
        ask(page, "and more")
        ready(page)


def test_without_webgpu_the_page_says_so_and_runs_on_the_cpu(opened: Callable[..., Any], url: str) -> None:
    with opened(url) as page:
        begun(page)
        assert page.inner_text("#device-words") == "CPU: WebGPU finds no GPU here"


@pytest.mark.parametrize("device", ["cpu", "gpu"])
@pytest.mark.parametrize("architecture", ["gemma4", "qwen35", "lfm2"])
def test_states_and_keys_of_two_sizes_reply_as_in_python(
    opened: Callable[..., Any], tmp_path: Path, architecture: str, device: str
) -> None:
    """With drafts on a GPU: rejected ones are taken back there. LFM2's random weights say nothing twice."""
    bundle = tiny_bundle(tmp_path, architecture)
    with (
        serving(_written(bundle, tmp_path)) as url,
        opened(url, gpu=device == "gpu", device=device, accept_downloads=True) as page,
    ):
        asked: list[str] = []
        page.on("request", lambda one: asked.append(one.url.rpartition("/")[2]))
        if device == "gpu":
            (worker,) = page.workers
            worker.evaluate(FLAT)
        begun(page)
        assert "those of the CPU's kernels" in page.locator("#device-facts").text_content()
        fast = page.evaluate("async () => (await import('./run/fast.js')).runsFast()")
        assert (WASM in asked, FAST in asked) == (not fast, fast)
        for way in WAYS:
            page.keyboard.press("Control+k")
            settings(page, way, LONG)
            ask(page, QUESTION)
            assert as_written(page) == python_reply(bundle, way, "off", QUESTION, LONG)
            assert device == "cpu" or architecture == "lfm2" or accepted(page) > 0


@pytest.mark.parametrize("isolated", [True, False])
def test_threads_help_where_the_page_is_isolated(
    opened: Callable[..., Any], tiny: Path, tmp_path: Path, isolated: bool
) -> None:
    with (
        serving(_written(tiny, tmp_path), Faults(isolated=isolated)) as url,
        opened(url, device="cpu", accept_downloads=True) as page,
    ):
        (worker,) = page.workers
        worker.evaluate(SIX)
        begun(page)
        title = "CPU, 3 threads" if isolated else "CPU"
        assert page.inner_text("#device-words") == f"{title}: chosen in the settings"
        alone = "this page's server does not isolate it" in page.locator("#device-facts").text_content()
        assert alone == (not isolated)
        settings(page, "sampled", LONG)
        ask(page, QUESTION)
        assert as_written(page) == python_reply(tiny, "sampled", "off", QUESTION, LONG)


def test_a_software_adapter_has_to_be_chosen(opened: Callable[..., Any], url: str) -> None:
    with opened(url, gpu=True) as page:
        begun(page)
        assert page.inner_text("#device-words") == "CPU: WebGPU has a software adapter alone"


def test_a_cut_reply_goes_on_with_the_tokens_of_an_uncut_one(
    opened: Callable[..., Any], url: str, tiny: Path
) -> None:
    with opened(url, accept_downloads=True) as page:
        begun(page)
        settings(page, "sampled", TOKENS // 2)
        ask(page, QUESTION)
        page.get_by_role("button", name="More").click()
        ended(page)
        assert as_written(page) == python_reply(tiny, "sampled", "off", QUESTION, TOKENS)


@pytest.mark.parametrize(("device", "tokens"), [("cpu", TOKENS), ("gpu", 16)])
def test_a_real_model_replies_as_in_python(
    opened: Callable[..., Any], tmp_path: Path, device: str, tokens: int
) -> None:
    name, question = "smollm2-135m", "Name three colours."
    bundle = installed(name)
    with (
        serving(_written(bundle, tmp_path)) as url,
        opened(url, gpu=device == "gpu", device=device, accept_downloads=True) as page,
    ):
        begun(page)
        assert ("same bits as the CPU" in page.inner_text("#device-words")) == (device == "gpu")
        settings(page, "greedy", tokens)
        ask(page, question)
        assert as_written(page) == python_reply(bundle, "greedy", "off", question, tokens)
