"""`scenario-lib completion`: the script that lets a shell complete commands and options."""

import click
from click.shell_completion import get_completion_class

from .cli import group

_PROGRAM = "scenario-lib"
_VARIABLE = "_SCENARIO_LIB_COMPLETE"
"""The variable by which click is asked for completions; it follows from the program's name."""


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script of SHELL.

    \b
    bash  scenario-lib completion bash > ~/.local/share/bash-completion/completions/scenario-lib
    zsh   scenario-lib completion zsh > a folder of $fpath, as _scenario-lib
    fish  scenario-lib completion fish > ~/.config/fish/completions/scenario-lib.fish
    """
    found = get_completion_class(shell)
    if found is None:
        raise click.ClickException(f"click has no completion for {shell}")
    click.echo(found(group, {}, _PROGRAM, _VARIABLE).source())
