"""The group behind `scenario-lib`: commands are loaded when they are asked for, so that help is quick."""

import sys
from importlib import import_module
from typing import Any

import click

# Command (and module beside this one) to its line in the help, which must not cost an import.
_COMMANDS = {
    "build": "Draw and screen candidates in parallel, publish a library.",
    "validate": "Check a library's files and draws, and replay its rollouts.",
    "convert": "A library in its other form: sharded, or the contract's two files.",
    "info": "What a library holds: kinds, recovery, windows, recipe, versions.",
    "diff": "What changed from one library to another.",
    "nightly": "Build, validate, compare with the last good night, publish: for cron.",
    "show": "One drawn scenario as JSON.",
    "merge": "Several libraries in one, without duplicates.",
    "export": "One recipe of a library, for openg2g's example.",
    "split": "Train, validation and test parts that share nothing.",
    "leaks": "Seeds and scenarios that two libraries share.",
    "select": "A library's candidates by another band, mostly without simulating.",
    "train": "A policy by PPO on a library (extra 'train').",
    "evaluate": "Policies beside no control, a rule and OFO on a held-out library.",
    "data": "Spec caches: measured traces (gated) or synthetic ones.",
}


class LazyGroup(click.Group):
    """A group that imports a command's module when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = import_module(f".{cmd_name}", __package__).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="scenario-lib")
def group() -> None:
    """Screened libraries of randomised scenarios for power grids with AI datacenters."""


def main(args: list[str] | None = None) -> Any:
    """Run the command line; errors of this project become one line and exit code 1, or 2 for a bad option."""
    from scenario_lib.errors import InvalidSettingError, ScenarioLibError

    try:
        return group.main(args=args, standalone_mode=True)
    except ScenarioLibError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(2 if isinstance(error, InvalidSettingError) else 1)
    except OSError as error:  # a full disk, a directory that may not be read
        click.echo(f"Error: {error}", err=True)
        sys.exit(1)
