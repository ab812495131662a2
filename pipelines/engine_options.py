"""Which engine rollouts run on; apart from the other options, because naming engines loads a simulator."""

from typing import Any

import click

from scenario_lib.simulation.engines import COMPILED, ENGINES, TOLERANCES


def engine_options(command: Any) -> Any:
    """`--engine` and `--tolerance`, as a decorator."""
    engine = click.option(
        "--engine", type=click.Choice(ENGINES), default=COMPILED, show_default=True, help="What rollouts run on."
    )
    tolerance = click.option(
        "--tolerance", type=click.Choice(TOLERANCES), default="opendss", show_default=True, help="Of its power flow."
    )
    return engine(tolerance(command))
