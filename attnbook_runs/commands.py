"""The commands of the recorded runs: ``attnbook experiments``, ``reproduce`` and ``gpu``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attnbook.extras import extra

with extra("book", "the command attnbook"):
    import click

__all__ = ["gpu", "list_experiments", "reproduce"]


@click.command("experiments")
def list_experiments() -> None:
    """List the recorded runs that `attnbook reproduce` remakes.

    The time is that of an idle machine; after it, what the recorded runs took, some of them beside
    other work, one that was stopped since it went on."""
    from .registry import load_experiments, recorded_minutes

    experiments = load_experiments()
    width = max(map(len, experiments))
    for name, experiment in experiments.items():
        needs = f" · needs {experiment.needs}" if experiment.needs else ""
        minutes = [
            f"{minutes:.0f}" if minutes >= 1 else "under 1" for minutes in recorded_minutes(name)
        ]
        known = (
            f" · took {' to '.join(dict.fromkeys([minutes[0], minutes[-1]]))} min"
            if minutes
            else ""
        )
        click.echo(
            f"{name:<{width}}  {experiment.title} · about {experiment.minutes}{known}{needs}"
        )


@click.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option(
    "--seed",
    "seeds",
    type=int,
    default=(0,),
    multiple=True,
    help="Seed of data, weights and order. May be repeated, for several runs.  [default: 0]",
)
@click.option(
    "--out",
    default="results",
    show_default=True,
    type=click.Path(file_okay=False),
    help="Where the JSON goes.",
)
@click.option(
    "--device",
    default=None,
    help="cpu, cuda, cuda:1 …  [default: the GPU if there is one and NAME can use it]",
)
@click.option(
    "--commit", default=None, help="Recorded beside the figures.  [default: what git says]"
)
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change a setting; VALUE is JSON or a plain text. May be repeated.",
)
@click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="Run on the workers of this Dask scheduler, as tcp://127.0.0.1:8786.",
)
def reproduce(
    names: tuple[str, ...],
    seeds: tuple[int, ...],
    out: str,
    device: str | None,
    commit: str | None,
    overrides: tuple[str, ...],
    scheduler: str | None,
) -> None:
    """Run the experiment NAME, or several, each with every seed, and record the figures in
    OUT/NAME.seedN.json.

    A run that was stopped goes on when the same command is given again, unless code is
    uncommitted or it ran on a scheduler's workers."""
    from .cluster import RunsFailed, reproduce_on
    from .registry import reproduce as run

    settings = dict(map(_setting, overrides))
    for key in ("name", *(run.__kwdefaults__ or ())):
        if key in settings:
            given = "NAME" if key == "name" else f"--{key}"
            raise click.BadParameter(
                f"{key} is no setting of an experiment; it is given as {given}", param_hint="--set"
            )
    runs = [(name, seed) for name in names for seed in seeds]
    common: dict[str, Any] = {"out": out, "device": device, "commit": commit, **settings}
    try:
        for path in (
            reproduce_on(scheduler, runs, **common)
            if scheduler
            else (run(name, seed=seed, resume=True, **common) for name, seed in runs)
        ):
            click.echo(path.read_text(encoding="utf-8"))
            click.echo(f"written to {path}", err=True)
    except (ValueError, OSError, ImportError, RunsFailed) as error:
        raise click.ClickException(str(error)) from error


@click.command()
@click.option("--minutes", required=True, type=float, help="How long the GPU may be used.")
@click.option("--device", default="cuda", show_default=True, help="cuda, cuda:1 …")
@click.option(
    "--out",
    default="results",
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the JSONs go.",
)
def gpu(minutes: float, device: str, out: Path) -> None:
    """Use a GPU for so many minutes: its tests, then the runs that are worth most.

    A run that has a result from a GPU is passed over; one that was stopped goes on. What is left is
    printed at the end."""
    from attnbook.training.loop.processes import check_device

    from .gpu import run_list

    try:
        check_device(device)
        run_list(minutes, device=device, out=out, say=click.echo)
    except (ValueError, OSError) as error:
        raise click.ClickException(str(error)) from error


def _setting(text: str) -> tuple[str, object]:
    """``KEY=VALUE`` with the value as :func:`attnbook_runs.registry.read_setting` reads
    it.
    """
    from .registry import read_setting

    key, equals, value = text.partition("=")
    if not equals:
        raise click.BadParameter(f"expected KEY=VALUE, got {text!r}", param_hint="--set")
    return key, read_setting(value)
