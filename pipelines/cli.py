"""The group behind `scenario-lib`: commands are loaded when they are asked for, so that help is quick."""

import sys
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem, get_completion_class

from .console import configure_logging

_PROGRAM = "scenario-lib"
_VARIABLE = "_SCENARIO_LIB_COMPLETE"
"""The variable by which click is asked for completions; it follows from the program's name."""


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(shell: str) -> None:
    """Print the completion script of SHELL.

    \b
    Examples:
    bash  scenario-lib completion bash > ~/.local/share/bash-completion/completions/scenario-lib
    zsh   scenario-lib completion zsh > a folder of $fpath, as _scenario-lib
    fish  scenario-lib completion fish > ~/.config/fish/completions/scenario-lib.fish

    \b
    Exit codes: 0 printed; 2 usage.
    """
    found = get_completion_class(shell)
    if found is None:
        raise click.ClickException(f"click has no completion for {shell}")
    click.echo(found(group, {}, _PROGRAM, _VARIABLE).source())


# Command to the module that has it as `NAME_command`, and to its line in the help, which must not cost an import.
_COMMANDS = {
    "build": ("build", "Draw and screen candidates in parallel, publish a library."),
    "recipes": ("look", "List the settings files that ship, or print one to change a copy of it."),
    "validate": ("validate", "Check a library's files and draws, and replay its rollouts."),
    "convert": ("combine", "Write a library in its other form: sharded, or the two files that openg2g reads."),
    "info": ("look", "Show what a library holds: kinds, recovery, windows, recipe, versions."),
    "report": ("look", "Write a page about a library or an evaluation of policies (extra 'plot')."),
    "compare": ("look", "Write a page with several libraries side by side (extra 'plot')."),
    "diff": ("look", "Say what changed from one library to another."),
    "nightly": ("nightly", "Build, validate, compare with the last good night, publish: for cron."),
    "show": ("look", "Print one drawn scenario as JSON."),
    "merge": ("combine", "Merge several libraries into one, without duplicates."),
    "export": ("combine", "Write one recipe of a library, for openg2g's example."),
    "split": ("combine", "Split a library into train, validation and test parts that share nothing."),
    "leaks": ("combine", "Name the seeds and scenarios that two libraries share."),
    "select": ("combine", "Screen a library's candidates by other thresholds, mostly without simulating."),
    "train": ("learn", "Train a policy by PPO on a library (extra 'train')."),
    "evaluate": ("learn", "Compare policies with no control, a rule and OFO on a held-out library."),
    "rollouts": ("learn", "Play a library under policies and write a row for every second (Parquet)."),
    "models": ("data", "Show the LLM deployments that an experiment can name, and what their figures rest on."),
    "feeder": ("feeder", "Check a feeder of your own: what it is, and what it can host."),
    "data": ("data", "Obtain spec caches: measured traces (gated) or synthetic ones."),
    "completion": ("cli", "Print the script that lets bash, zsh or fish complete commands and options."),
}


class _LazyGroup(click.Group):
    """A group that imports a command's module when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = getattr(
            import_module(f".{_COMMANDS[cmd_name][0]}", __package__), f"{cmd_name}_command"
        )
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's, but a misspelt command is told which one was probably meant."""
        if args and args[0] not in _COMMANDS and not ctx.resilient_parsing and not args[0].startswith("-"):
            from scenario_lib._values import likely, shown

            ctx.fail(f"no command {shown(args[0])}; {likely(args[0], _COMMANDS)}")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete names of commands without importing any of them."""
        names = [name for name in _COMMANDS if name.startswith(incomplete)]
        return [CompletionItem(name, help=_COMMANDS[name][1]) for name in names] or super().shell_complete(
            ctx, incomplete
        )

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in _COMMANDS.items()])


def _show_versions(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    """Print this package's version and those of what its results depend on, without loading any of it."""
    if not asked or ctx.resilient_parsing:
        return
    from scenario_lib.library.provenance import versions

    names = {"opendss": "OpenDSS (dss-python-backend)", "scenario_lib": "scenario-lib, version"}
    for name, found in versions().items():
        click.echo(f"{names.get(name, name)} {found}")
    click.echo(f"Python {sys.version.split()[0]}")
    ctx.exit()


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("-q", "--quiet", is_flag=True, help="No progress bars, no notices: results and errors only.")
@click.option("-v", "--verbose", count=True, help="Say what is being done; twice for more.")
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_show_versions,
    help="Show versions and exit.",
)
def group(quiet: bool, verbose: int) -> None:
    """Screened libraries of randomised scenarios for power grids with AI datacenters.

    Results go to stdout, everything else to stderr. Nothing is coloured.

    \b
    Example: scenario-lib build --config ieee13 --candidates 40 --out libraries/first
    Exit codes: 0 done; 1 refused or failed; 2 usage; others are in the help of each command.
    """
    if quiet and verbose:
        raise click.UsageError("--quiet and --verbose exclude each other")
    configure_logging(quiet, verbose)


def main(args: list[str] | None = None) -> Any:
    """Run the command line; errors of this project become one line and exit code 1, or 2 for a bad option."""
    from scenario_lib.errors import InvalidSettingError, ScenarioLibError

    try:
        return group.main(args=args, standalone_mode=True)
    except ScenarioLibError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(2 if isinstance(error, InvalidSettingError) else 1)
    except OSError as error:  # a full disk, a directory that may not be read
        where = f"{error.filename}: " if error.filename is not None else ""
        click.echo(f"Error: {where}{error.strerror or error}", err=True)
        sys.exit(1)
