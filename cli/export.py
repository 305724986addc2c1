"""``edgedec export``: a GGUF file or a Hugging Face directory becomes a bundle where the user wants it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from edgedec.bench.harness.texts import read_text
from edgedec.bundle.device_folder import DEVICES
from edgedec.bundle.manifest import MANIFEST, Manifest
from edgedec.bundle.web_folder import CONTENTS, WEB
from edgedec.cli import options as opt
from edgedec.cli import progress, screen
from edgedec.cli.command import new_command, option
from edgedec.cli.device_folder import DeviceFolderOptions, between, write_folder
from edgedec.cli.services import services
from edgedec.core.errors import NotFoundError, UsageError
from edgedec.core.units import size
from edgedec.export import BACKENDS, QUANTS, TARGETS
from edgedec.export.notes import notes
from edgedec.models.hub_names import may_name_hub


@new_command(
    "export",
    "edgedec export model.gguf -o my-model",
    "edgedec export Qwen3-0.6B -o my-model --quant q4_1",
    "edgedec export Qwen3-0.6B -o my-model --quant q4_0 --quant attn=q5_1 --calibrate book.txt",
    "edgedec export Qwen3-0.6B -o my-model --size 400MB",
    "edgedec export smollm2-135m --for android -o phone",
    "edgedec export qwen2.5-coder-1.5b --for android --with-draft smollm2-135m -o phone",
    "edgedec export smollm2-135m --for web -o page",
    "edgedec export model.gguf --for npu -o my-npu-model",
    'edgedec generate -m ./my-model -p "Hello"',
)
@click.argument("source", type=click.Path(path_type=Path), metavar="SOURCE")
@click.option("-o", "--output", "out", required=True, type=click.Path(path_type=Path), metavar="DIR",
              help="Where the bundle goes; a bundle that is there already is replaced.")  # fmt: skip
@click.option("--name", metavar="NAME", help="The model's name (default: the one in the file).")
@click.option("--quant", "quants", multiple=True, metavar="[PART=]FORMAT",
              help="Quantise the matrices of a Hugging Face model to FORMAT, one of "
              f"{', '.join(QUANTS)} (default: {QUANTS[0]}). With PART only those of attention (attn), "
              "MLP (mlp) or embedding and head (head), which keep q8_0 without it; "
              "may be given several times.")  # fmt: skip
@option("--size", "limit", rare=True, type=opt.Size(), metavar="SIZE",
              help="Choose a format of 4 to 8 bits for each matrix of a Hugging Face model, so that the "
              "bundle has at most that size and predictions change least.")  # fmt: skip
@option("--calibrate", rare=True, type=click.Path(path_type=Path), metavar="FILE",
              help="Let the float model read some thousand tokens of this text (.jsonl: prompts) first, and "
              "weigh rounding errors by the inputs that the matrices get; for 4 and 5 bits. --size then "
              "measures predictions on it.")  # fmt: skip
@option("--lora", rare=True, multiple=True, metavar="DIR[:SCALE]",
              help="Add a LoRA adapter that PEFT saved to the matrices of a Hugging Face model, at a "
              "scale (default: 1); may be given several times.")  # fmt: skip
@option("--backend", rare=True, type=click.Choice(BACKENDS), metavar="RUNTIME",
              help="Run a GGUF file by EdgeDec's kernels (edgedec) or by llama.cpp. By default llama.cpp, if "
              "it is installed, runs the files that the kernels cannot run.")  # fmt: skip
@click.option("--for", "device", type=click.Choice([*DEVICES, WEB, *TARGETS]), metavar="DEVICE",
              help="android: write one folder with all that a phone needs: the model, its drafters, tables "
              "of its tokenizer, and the hashes of all files. SOURCE may also be a bundle or an installed "
              "model. `edgedec push` sends it; other commands open it, too. web: write that for a browser, "
              "with a page to chat on; `edgedec web` or any server of static files serves it. npu: passes of "
              "fixed lengths in integers, for at most 1024 tokens; --calibrate then names the text that "
              "ranges of values are measured on. htp: that, compiled by QNN for Snapdragon 8 Gen "
              "3.")  # fmt: skip
@click.option("--with-draft", "drafters", multiple=True, metavar="NAME",
              help="Small model, by name or path, that drafts in that folder. It carries the head, trim and "
              "tables that belong to the model, too; a name of these, or the folder of one, chooses among "
              "them, and off leaves them out. May be given several times.")  # fmt: skip
@opt.json_option
@click.pass_context
def command(
    ctx: click.Context,
    source: Path,
    out: Path,
    name: str | None,
    quants: Sequence[str],
    limit: int | None,
    calibrate: Path | None,
    lora: Sequence[str],
    backend: str | None,
    device: str | None,
    drafters: Sequence[str],
    as_json: bool,
) -> None:
    """Turn a model into a bundle: an ONNX graph, packed weights, tokenizer, template and manifest.

    SOURCE is a GGUF file or a Hugging Face directory (config.json, safetensors, tokenizer.json). The weights
    of a GGUF file keep their integers and scales exactly; those of a directory are quantised. Architectures:
    llama, smollm3, mistral3, qwen2, qwen3, qwen3vl, qwen35, gemma2, gemma3, gemma4, phi3, lfm2;
    with experts qwen3moe, lfm2moe, granitemoe, qwen35moe, gemma4, gpt-oss; encoders bert, roberta,
    gemma-embedding, and decoders with a pooling.

    Other architectures run without EdgeDec's kernels. A directory is exported with optimum in float32, and
    ONNX Runtime runs it (the extra optimum). A GGUF file is kept as it is, and llama.cpp runs it (the extra
    gguf).

    With --for android DIR is a device's folder: a bundle that carries its drafters, and lists all files with
    hashes. With --for web it is a page that runs the model in the browser. With --for npu or htp it is a
    bundle that `--device npu` runs.

    An interrupted export leaves DIR as it was.
    """
    npu = device in TARGETS
    if drafters and (npu or device is None):
        raise UsageError("--with-draft is for a phone's folder", hint="make one with --for android")
    if npu and (backend or quants or limit):
        raise UsageError(
            f"--for {device} goes without --backend, --quant and --size", hint="its weights have 8 bits"
        )
    if limit and quants:
        raise UsageError("--size chooses the formats, --quant states them", hint="leave one out")
    folder = DeviceFolderOptions.read(ctx, device, drafters, as_json) if device and not npu else None
    if folder and not _made_of_source(source):
        options = {
            "--name": name,
            "--quant": quants,
            "--size": limit,
            "--calibrate": calibrate,
            "--lora": lora,
            "--backend": backend,
        }
        if named := next((option for option, value in options.items() if value), None):
            raise UsageError(f"{named} is for a GGUF file or a Hugging Face directory", hint="leave it out")
        write_folder(ctx, folder, source, out)
        return
    if not source.exists():
        hint = "SOURCE is a .gguf file or a Hugging Face directory"
        if may_name_hub(str(source)):
            hint += f"; `edgedec pull {source}` fetches from the model hub and exports"
        raise NotFoundError(f"no such file: {source}", hint=hint)
    stated = {"--quant": quants, "--size": limit, "--calibrate": calibrate, "--lora": lora}
    for name_of, given in stated.items():
        if given and (name_of == "--lora" or not npu) and (npu or not source.is_dir()):
            raise UsageError(
                f"{name_of} is for Hugging Face directories", hint="a GGUF file keeps its weights as they are"
            )
    from edgedec.export.drafters.check import checked_drafters

    if backend and source.is_dir():
        raise UsageError("--backend is for GGUF files", hint="leave it out")
    if out.exists() and not _replaceable(out):
        raise UsageError(f"{out} exists and is not a bundle", hint="choose a new or an empty directory")
    text = read_text(calibrate) if calibrate else None
    quant = limit or ",".join(quants) or None

    def write(out: Path) -> Manifest:
        with progress.reporter() as report:
            return services(ctx).export(
                source,
                out,
                name=name,
                quant=quant,
                calibration=text,
                backend=backend,
                target=device if npu else None,
                lora=lora,
                progress=report,
            )

    if folder:
        folder.check_before(ctx)
        with between(out) as bundle:
            write(bundle)
            write_folder(ctx, folder, bundle, out)
        return
    manifest = write(out)
    for line in notes(manifest):
        progress.notice(line)
    with progress.reporter() as report:
        refused = checked_drafters(out, report)
    for line in refused:
        progress.notice(line)
    total = sum(file.stat().st_size for file in out.iterdir())
    if as_json:
        document = {
            "name": manifest.name,
            "architecture": manifest.spec.architecture,
            "path": str(out),
            "bytes": total,
            "source_bytes": manifest.source["bytes"],
            "files": {name: file.bytes for name, file in manifest.files.items()},
        }
        screen.show_json(document)
    else:
        ratio = total / float(manifest.source["bytes"] or 1)
        click.echo(f"{manifest.name}: {size(total)} in {out}, {ratio:.3f} times the source")


def _made_of_source(source: Path) -> bool:
    """Whether ``source`` is a file or directory that has to become a bundle first."""
    return source.exists() and not (source / MANIFEST).is_file()


def _replaceable(out: Path) -> bool:
    kept = (out / MANIFEST, out / CONTENTS)
    return out.is_dir() and (any(one.is_file() for one in kept) or not any(out.iterdir()))
