"""Compare predictions on real text with exact logits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgedec.bench.harness.runtimes import EDGEDEC, WITH_LOGITS, OwnRun
from edgedec.cli import screen
from edgedec.cli.bench import inputs
from edgedec.core.errors import UsageError
from edgedec.core.units import size

if TYPE_CHECKING:
    from edgedec.bench.harness.energy import Energies, EnergyProbe
    from edgedec.bench.studies.faithful import FaithfulReport, TextWindow
    from edgedec.bundle.manifest import Manifest
    from edgedec.cli.bench.accuracy import AccuracyOptions

FP16 = "fp16"
_WINDOW_TOKENS = 512


def run(ctx: click.Context, options: AccuracyOptions) -> None:
    """Compare, and show agreement and divergence."""
    from edgedec.bench.harness.energy import EnergyProbe
    from edgedec.bench.harness.runtimes import reference_side
    from edgedec.bench.studies.faithful import compare_logits
    from edgedec.cli.bench.tables import show_energies
    from edgedec.memory import kv_bytes

    if len(options.policies) > 1:
        raise UsageError("--task faithful takes one --when-full")
    names = options.peer_names(WITH_LOGITS, "does not give its logits")
    bundle, manifest = inputs.find_model(ctx, options.model)
    window = min(_WINDOW_TOKENS, manifest.spec.context_length)
    windows = _windows(bundle, manifest, options, window)
    exact = OwnRun(options.chosen_threads, inputs.home(ctx), window)
    when_full = options.policies[0] if options.policies else None
    context = window // 2 if when_full else window
    run = replace(exact, context=context, kv=options.kv, when_full=when_full)
    if options.reference == FP16:
        reference = exact.side(bundle, options.reference)
    else:
        peers = inputs.peer_run(ctx, options, manifest, window)
        reference = reference_side(options.reference, peers)
    sides = [run.side(bundle)]
    sides += inputs.peer_sides(ctx, options, manifest, names, context=window, all_rows=True)
    probe = EnergyProbe()
    with inputs.steps() as progress:
        report = compare_logits(reference, sides, windows, progress, probe)
    energies = _energies(report, manifest, options, probe)
    per_token = kv_bytes(manifest.spec, 1, options.kv)
    if options.as_json:
        facts = {"model": manifest.name, "kv": options.kv, "kv_bytes_per_token": per_token}
        facts |= {"when_full": when_full, "context": context}
        screen.show_json({**facts, **report.as_json(), "energy": energies.as_json()})
    else:
        _show(report, manifest.name)
        if manifest.kind == "edgedec":
            click.echo(f"KV cache of EdgeDec in {options.kv}: {size(per_token)} a token")
        show_energies(energies, unit="mJ/token read")


def _energies(
    report: FaithfulReport, manifest: Manifest, options: AccuracyOptions, probe: EnergyProbe
) -> Energies:
    """Return the joules of each token read, also of the reference where it is measured or EdgeDec."""
    from edgedec.bench.harness.energy import traffics
    from edgedec.bench.studies.faithful import energies_of_windows

    known = traffics(report.sides, manifest, options.gguf_file, options.kv)
    if report.reference == FP16:
        known |= {FP16: traffics([EDGEDEC], manifest, None, "fp16")[EDGEDEC]}
    return energies_of_windows(report.reads, known, manifest.spec.window, probe.reason)


def _windows(bundle: Path, manifest: Manifest, options: AccuracyOptions, window: int) -> list[TextWindow]:
    from edgedec.bench.harness.texts import read_text
    from edgedec.bench.studies.faithful import windows_of
    from edgedec.text.tokenizer import Tokenizer

    tokenizer = Tokenizer.load(bundle, manifest.tokenizer)
    bos = manifest.tokenizer.bos_id if manifest.tokenizer.add_bos else None
    tokens, files = options.text_tokens, options.files
    windows = []
    for index, path in enumerate(files):
        share = tokens // len(files) + (index < tokens % len(files))
        ids = tokenizer.encode(read_text(path), add_bos=False)
        if len(ids) < share:
            raise UsageError(
                f"{path} has {len(ids)} tokens, and {share} are wanted",
                hint="give more text, or less --tokens",
            )
        windows += windows_of(ids[:share], window, bos)
    return windows


def _show(report: FaithfulReport, model: str) -> None:
    from edgedec.cli.bench.tables import new_table, wide_console

    table = new_table(("", "same top-1", "mean KL", "median", "99 %", "worst", "perplexity"))
    positions, expected = 0, 0.0
    for name, divergence in report.sides.items():
        facts = divergence.as_json()
        positions, expected = int(facts["positions"]), facts["reference_perplexity"]
        kl = [f"{facts[key]:.2e}" for key in ("kl_mean", "kl_median", "kl_p99", "kl_max")]
        table.add_row(name, f"{facts['top1_agreement']:.2%}", *kl, f"{facts['perplexity']:.4f}")
    kind = "KV cache in fp16" if report.reference == FP16 else "float32"
    console = wide_console()
    console.print(
        f"{model}, {positions} positions in windows of {report.window}; reference"
        f" {report.versions[report.reference]}, {kind}, perplexity {expected:.4f}",
        soft_wrap=True,
    )
    console.print(table)
