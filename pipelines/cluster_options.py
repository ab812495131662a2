"""Where the worker processes of a command run: on this machine, or on a cluster."""

from typing import Any

import click

from scenario_lib.errors import InvalidSettingError
from scenario_lib.execution.options import CLUSTERS, Cluster

_LOCAL = "local"


def cluster_options(command: Any) -> Any:
    """`--backend` and `--scheduler`, as a decorator."""
    backend = click.option(
        "--backend",
        type=click.Choice((_LOCAL, *CLUSTERS)),
        default=_LOCAL,
        show_default=True,
        help="Where workers run.",
    )
    scheduler = click.option(
        "--scheduler", metavar="ADDRESS", help="Of the cluster.  [default with ray: a cluster on this machine]"
    )
    return backend(scheduler(command))


def cluster_of(backend: str, scheduler: str | None) -> Cluster | None:
    """The cluster that the options name; None for this machine.

    Raises:
        InvalidSettingError: An address without a cluster, or Dask without an address.
    """
    if backend != _LOCAL:
        return Cluster(backend, scheduler)
    if scheduler is not None:
        raise InvalidSettingError(f"--scheduler is {scheduler!r}; expected together with --backend dask or ray")
    return None
