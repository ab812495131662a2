"""`scenario-lib nightly`: what cron runs."""

import datetime
import json
import sys
from pathlib import Path
from typing import Any

import click

from scenario_lib.errors import NightBusyError
from scenario_lib.nightly.config import read_nightly
from scenario_lib.nightly.run import Night, NightOutcome, NightReport, run_night

from .console import log_with_times, progress_bar, show_progress
from .options import cluster_options, jobs_option, run_options, timeout_option

EXIT_INTERRUPTED = 130


@click.command("nightly")
@click.option("--config", type=click.Path(path_type=Path, dir_okay=False), required=True, help="TOML file of the run.")
@click.option("--night", type=click.DateTime(["%Y-%m-%d"]), help="Day that names the night.  [default: today, UTC]")
@jobs_option
@cluster_options
@timeout_option
def nightly_command(config: Path, night: datetime.datetime | None, **options: Any) -> None:
    """Build a library, validate a sample on both engines, compare with the last good night, publish.

    \b
    Example: scenario-lib nightly --config data/nightly/ieee13.toml

    Prints one line of JSON; what happens meanwhile goes to standard error. `current` in the run's directory points at
    the newest night that passed, and is never moved otherwise. Killed or interrupted, the same command goes on.

    \b
    Exit codes: 0 published, or was already; 1 refused (the error says why); 2 usage; 10 the build failed or accepted
    too few; 11 the validation failed; 12 too different from the last good night; 75 another run is under way;
    130 interrupted.
    """
    day = night.date() if night else datetime.datetime.now(datetime.UTC).date()
    log_with_times()
    plan = read_nightly(config)
    try:
        with progress_bar(unit="candidate") as bar:
            report = run_night(Night(plan, day, run_options(options), lambda p: show_progress(bar, p)))
    except NightBusyError as error:
        report = NightReport(day, NightOutcome.BUSY, str(error))
    except KeyboardInterrupt:
        click.echo("interrupted; the same command goes on", err=True)
        sys.exit(EXIT_INTERRUPTED)
    click.echo(json.dumps(report.to_dict(), allow_nan=False))
    sys.exit(int(report.outcome))
