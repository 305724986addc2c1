"""From a command's options to an open model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgedec.bundle.device_place import ON_CPU, DevicePlace
from edgedec.cli import contradictions, progress
from edgedec.cli.early import collect_again, import_numpy
from edgedec.cli.services import services
from edgedec.cli.with_drafter import with_drafter
from edgedec.core.errors import UsageError
from edgedec.core.units import size
from edgedec.models.catalogue import CATALOGUE, DEFAULT_MODEL

if TYPE_CHECKING:
    from edgedec.api import Model
    from edgedec.assemble.config import RunConfig
    from edgedec.assemble.prepare import Bundles
    from edgedec.bundle.exits import LayerOutputs
    from edgedec.cli.options import BatchSizeOptions
    from edgedec.loaded_model import LoadedModel
    from edgedec.sampling.named import SamplingParams

BUDGETS = 1_000_000_000, 2_000_000_000
"""Bytes for which a model is recommended."""


def run_config(size: BatchSizeOptions, sampling: SamplingParams | None = None) -> RunConfig:
    """Return the settings that these options name.

    Raises UsageError, also for options of the command line that contradict each other.
    """
    contradictions.refuse(click.get_current_context())
    import_numpy()
    from edgedec.assemble.config import RunConfig

    given = asdict(size)
    del given["device"]
    return RunConfig(**given, **size.device.settings(), sampling=sampling)


def fetch_bundles(ctx: click.Context, name: str, config: RunConfig) -> Bundles:
    """Pull or export a model and its draft models if they are missing, with progress.

    A model that was missing brings the drafter that comes with it, as with ``edgedec pull``, where ``config``
    leaves the choice of drafters open. The first time, one line says what the default model is
    for, and which models to take for more.
    """
    from edgedec.api import fetch
    from edgedec.drafters.registry import AUTO

    store = services(ctx).store()
    first = name == DEFAULT_MODEL and not store.list()
    bare = name not in {model.name for model in store.list()} and name in CATALOGUE
    with progress.reporter() as report:
        found = fetch(name, config, store, report)
        if bare and config.draft == AUTO:
            with_drafter(found.target, store, report, f"`edgedec pull {name} --no-drafter`")
    if first:
        progress.notice(first_words())
    return found


def first_words() -> str:
    """Return the line that says what to take for more in 1 and 2 GB."""
    from edgedec.models.catalogue import recommended

    places = (f"{recommended(nbytes).name} in {size(nbytes)}" for nbytes in BUDGETS)
    more = f"Better ones: {', '.join(places)}"
    return f"{DEFAULT_MODEL} is a small model, for a first try. {more}; `edgedec default NAME` keeps one."


def prepare_model(
    ctx: click.Context, name: str, config: RunConfig, *, to_chat: bool = False
) -> Callable[[], Model]:
    """Fetch a model if it is missing, and return the function that opens it.

    ``to_chat``: that raises UsageError, before anything is measured, for a base model unless ``config`` has a
    template or does without one.
    """
    from edgedec import api

    given = services(ctx)
    bundles = fetch_bundles(ctx, name, config)

    def load(
        bundle: Path,
        /,
        *,
        threads: int | None,
        drafting: LayerOutputs,
        place: DevicePlace = ON_CPU,
    ) -> LoadedModel:
        model = given.load(bundle, threads=threads, drafting=drafting, place=place)
        if to_chat and bundle == bundles.target and model.template is None and config.template is None:
            raise UsageError(
                f"{model.name} is a base model: it continues text, and has no chat template",
                hint=f"{_taught(model.name)}--raw continues the lines that you type, "
                "--template FILE gives it a template",
            )
        return model

    def opened() -> Model:
        model = api.open(bundles, config, store=given.store(), notice=progress.notice, load=load)
        collect_again()
        return model

    return opened


def _taught(name: str) -> str:
    """Name the model of the catalogue that is this base model and was taught to chat, if there is one."""
    taught = f"{name}-it"
    return f"{taught} was taught to chat; " if taught in CATALOGUE else ""


def open_model(ctx: click.Context, name: str, config: RunConfig) -> Model:
    """Open a model by name or path; it is closed when the command ends."""
    model = prepare_model(ctx, name, config)()
    ctx.call_on_close(model.close)
    return model


def no_system(model: Model) -> UsageError:
    """Return the error for a system message where there is no chat template."""
    return UsageError(f"{model.name} has no chat template, so no system message either")


def without_template(
    model: Model, *, raw: bool = False, system: str | None = None
) -> tuple[bool, str | None]:
    """Return whether text is continued as it stands, and the system message.

    Raises UsageError for a system message to a model without a template.
    """
    if model.loaded.template is None and not raw:
        if system:
            raise no_system(model)
        progress.notice(f"note: {model.name} is a base model without a chat template; it continues text")
        return True, None
    return raw, system


def say_overrun(model: Model) -> None:
    """Say in one line that more memory was taken than promised, if so."""
    plan = model.plan()
    if plan and (above := plan.overrun):
        promised = size(plan.budget)
        progress.notice(f"memory: {size(above)} more than the budget of {promised} were in use")
