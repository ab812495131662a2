"""`scenario-lib compare`: several libraries side by side, as one page to look at."""

from pathlib import Path

import click


@click.command("compare")
@click.argument("libraries", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), required=True, help="The page.")
@click.option("--figures", type=click.Path(path_type=Path, file_okay=False), help="Also write figures as SVG and PNG.")
def command(libraries: tuple[Path, ...], out: Path, figures: Path | None) -> None:
    """Write a page about two or more LIBRARIES: acceptance, kinds, recovery, difficulty, windows, versions.

    \b
    Exit codes: 0 written; 1 refused or failed; 2 usage.
    """
    from scenario_lib.reporting.comparison_page import comparison_page
    from scenario_lib.reporting.page import write_page

    write_page(out, comparison_page(libraries), figures)
    click.echo(f"page                {out}")
