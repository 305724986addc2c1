"""Record terminals as pictures: ``python -m docs.record [SCENE...]``."""

from __future__ import annotations

from pathlib import Path

import click

from docs.record.picture import THEMES, png, svg
from docs.record.scenes import SCENES
from docs.record.terminal import record

OUTPUT = Path(__file__).parents[1] / "terminals"
COLUMNS = 80


@click.command(
    epilog="\b\nExamples:\n  python -m docs.record\n"
    "  python -m docs.record plan list --columns 60 --columns 120 --png --to pictures"
)
@click.argument("names", metavar="[SCENE]...", nargs=-1, type=click.Choice([one.name for one in SCENES]))
@click.option(
    "--columns",
    "widths",
    type=click.IntRange(20, 400),
    multiple=True,
    default=(COLUMNS,),
    show_default=True,
    metavar="N",
    help="Width of the terminal; may be given several times.",
)
@click.option(
    "--theme",
    "themes",
    type=click.Choice(list(THEMES)),
    multiple=True,
    default=tuple(THEMES),
    show_default=True,
    metavar="NAME",
    help="Colours of the picture; may be given several times.",
)
@click.option("--png", "pixels", is_flag=True, help="Write a PNG beside every SVG.")
@click.option(
    "--to",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=OUTPUT,
    metavar="DIR",
    help="Folder of the pictures (default: docs/terminals).",
)
def command(
    names: tuple[str, ...], widths: tuple[int, ...], themes: tuple[str, ...], pixels: bool, folder: Path
) -> None:
    """Record all scenes, or those named, as SVG: NAME-dark.svg, and NAME-60-dark.svg where N is not 80.

    Every scene runs in a pseudo-terminal, and its pictures show the bytes that it wrote. Questions, seeds and
    therefore replies are fixed; times differ from run to run. Models are those of EDGEDEC_HOME.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for scene in SCENES:
        for columns in widths if not names or scene.name in names else ():
            lines = record(scene, columns)
            stem = scene.name if columns == COLUMNS else f"{scene.name}-{columns}"
            for theme in themes:
                picture = svg(lines, columns, " ".join(scene.command.split()[:2]), theme)
                file = folder / f"{stem}-{theme}.svg"
                file.write_text(picture + "\n", encoding="utf-8")
                if pixels:
                    file.with_suffix(".png").write_bytes(png(picture))
                click.echo(f"{file}: {len(lines)} lines of {columns} columns")


if __name__ == "__main__":
    command()
