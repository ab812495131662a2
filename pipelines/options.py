"""Options that several commands share: where a library goes, what rollouts run on, and on which machines.

They stand apart from `console`, because naming engines loads a simulator, which help does not need.
"""

from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from scenario_lib._parsing import named_file, shipped_files
from scenario_lib.errors import InvalidSettingError, UnknownNameError
from scenario_lib.execution.options import CLUSTERS, Cluster, RunOptions, available_cores
from scenario_lib.simulation.engines import COMPILED, ENGINES, TOLERANCES

jobs_option = click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=available_cores,
    show_default="all cores",
    help="Number of worker processes; a cluster has its own.",
)
timeout_option = click.option(
    "--timeout", "timeout_s", type=float, default=None, help="Longest time for one candidate (s)."
)
specs_dir_option = click.option(
    "--specs-dir",
    type=click.Path(path_type=Path, file_okay=False),
    default=None,
    help="Spec cache in openg2g's layout, such as measured traces.  [default: the shipped synthetic traces]",
)


class SettingsFile(click.Path):
    """A settings file: a path, or the name of one that ships, which is completed.

    Args:
        kind: One of `SHIPPED_KINDS`.
    """

    def __init__(self, kind: str) -> None:
        super().__init__(path_type=Path, dir_okay=False)
        self.kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path; a misspelt name is wrong usage."""
        try:
            return named_file(self.kind, Path(str(super().convert(value, param, ctx))))
        except UnknownNameError as error:
            self.fail(str(error), param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Names that ship, and files."""
        names = [CompletionItem(name) for name in shipped_files(self.kind) if name.startswith(incomplete)]
        return names + super().shell_complete(ctx, param, incomplete)


recipe_option = click.option(
    "--config", type=SettingsFile("recipes"), help="Recipe file, or the name of a shipped one; options win over it."
)
out_option = click.option("--out", type=click.Path(path_type=Path), required=True, help="Directory of the library.")
overwrite_option = click.option("--overwrite", is_flag=True, help="Replace what is there, if it is a library.")

_LOCAL = "local"


def cluster_options(command: Any) -> Any:
    """`--backend`, `--scheduler` and `--wait-workers`, as a decorator."""
    backend = click.option(
        "--backend",
        type=click.Choice((_LOCAL, *CLUSTERS)),
        default=_LOCAL,
        show_default=True,
        help="Where the workers run: on this machine, or on a cluster.",
    )
    scheduler = click.option(
        "--scheduler",
        metavar="ADDRESS",
        help="Address of the cluster's scheduler.  [default with ray: a cluster on this machine]",
    )
    workers = click.option(
        "--wait-workers",
        type=click.IntRange(min=1),
        help="Begin when so many workers are connected; more may come, and go, later.  [default: 1]",
    )
    return backend(scheduler(workers(command)))


def cluster_of(options: dict[str, Any]) -> Cluster | None:
    """The cluster that `cluster_options` name; None for this machine.

    Raises:
        InvalidSettingError: An address or a number of workers without a cluster, or Dask without an address.
    """
    backend, scheduler, wait_workers = options["backend"], options["scheduler"], options["wait_workers"]
    if backend != _LOCAL:
        return Cluster(backend, scheduler, wait_workers or 1)
    for name, value in (("--scheduler", scheduler), ("--wait-workers", wait_workers)):
        if value is not None:
            raise InvalidSettingError(f"{name} is {value!r}; expected together with --backend dask or ray")
    return None


def run_options(options: dict[str, Any]) -> RunOptions:
    """How many processes run tasks, for how long each, and where."""
    return RunOptions(options["jobs"], options["timeout_s"], cluster=cluster_of(options))


def engine_options(command: Any) -> Any:
    """`--engine` and `--tolerance`, as a decorator."""
    engine = click.option(
        "--engine",
        type=click.Choice(ENGINES),
        default=COMPILED,
        show_default=True,
        help="Engine that the rollouts run on.",
    )
    tolerance = click.option(
        "--tolerance",
        type=click.Choice(TOLERANCES),
        default="opendss",
        show_default=True,
        help="Where the compiled engine stops its power flow: as OpenDSS does, or converged.",
    )
    return engine(tolerance(command))
