"""``edgedec push``: a device's folder goes to a phone."""

from __future__ import annotations

from pathlib import Path

import click

from edgedec.cli import options as opt
from edgedec.cli import progress, screen
from edgedec.cli.command import new_command
from edgedec.core.errors import NotFoundError
from edgedec.core.units import size

_BY_HAND = (
    "without adb copy {folder} to the phone by USB and choose it in the app, or serve it with "
    "`python -m http.server -d {folder}` and give the app the address"
)


@new_command(
    "push",
    "edgedec push phone",
    "ANDROID_SERIAL=emulator-5554 edgedec push phone --json",
)
@click.argument("folder", type=click.Path(path_type=Path), metavar="FOLDER")
@opt.json_option
def command(folder: Path, as_json: bool) -> None:
    """Send a folder of `edgedec export --for android` to a phone, through adb.

    Files that are on the phone with the right hash stay as they are, so the same command goes on where one
    was cut off. All others are sent, and their hashes are compared on the phone. They go to the folder of
    EdgeDec's app, or to /data/local/tmp/edgedec where it is not installed. adb's own rules choose the phone:
    the only one, or that of ANDROID_SERIAL.
    """
    from edgedec.bundle.device_folder import DeviceFolder
    from edgedec.export.device.adb import Adb
    from edgedec.export.device.push import push_folder

    try:
        DeviceFolder.load(folder)
    except NotFoundError as error:
        hint = f"{error.hint}; `edgedec export NAME --for android -o {folder}` makes one"
        raise NotFoundError(error.message, hint=hint) from error
    try:
        adb = Adb()
    except NotFoundError as error:
        hint = f"{error.hint}; {_BY_HAND.format(folder=folder)}"
        raise NotFoundError(error.message, hint=hint) from error
    with progress.reporter() as report:
        done = push_folder(folder, adb, progress.notice, report)
    nbytes = sum(done.sent.values())
    if as_json:
        screen.show_json({
            "name": done.name, "place": done.place, "bytes": nbytes, "sent": dict(done.sent),
            "present": done.present,
        })  # fmt: skip
        return
    click.echo(f"{done.name}: {size(nbytes)} in {len(done.sent)} files sent, {done.present} were there")
    click.echo(f"It is in {done.place} on the phone.")
