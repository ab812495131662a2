"""`scenario-lib report`: a library, or an evaluation of policies, as one page to look at."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scenario_lib.errors import InvalidSettingError

from .options import specs_dir_option

if TYPE_CHECKING:
    from scenario_lib.reporting.page import Page


@click.command("report")
@click.argument("library", type=click.Path(path_type=Path), required=False)
@click.option("--evaluation", type=click.Path(path_type=Path), help="Instead: the --out directory of 'evaluate'.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="The page.  [default: report.html inside]")
@click.option("--figures", type=click.Path(path_type=Path, file_okay=False), help="Also write figures as SVG and PNG.")
@click.option("--scenario", "seeds", type=int, multiple=True, help="Show this seed; repeat.  [default: telling ones]")
@click.option("--system", help="Experiment's TOML file, for a library on a feeder of your own.")
@specs_dir_option
def command(library: Path | None, evaluation: Path | None, out: Path | None, figures: Path | None, **play: Any) -> None:
    """Write a page about LIBRARY: what is inside, what was rejected and why, single scenarios, provenance.

    The page is one file that needs no network. Needs the extra 'plot'.

    \b
    Exit codes: 0 written; 1 refused or failed; 2 usage.
    """
    source = library or evaluation
    if source is None or (library and evaluation):
        raise InvalidSettingError("what is the page about? Give a library, or --evaluation with a directory")
    # Imported here, because matplotlib takes a while that help need not pay.
    from scenario_lib.learning.comparison import SCENARIOS
    from scenario_lib.library.files import METADATA, REPORT
    from scenario_lib.reporting.page import write_page

    if library and (library / SCENARIOS).is_file() and not (library / METADATA).exists():
        raise InvalidSettingError(f"{library}: is an evaluation, not a library; give it as --evaluation")
    page = _evaluation_page(source) if library is None else _library_page(source, **play)
    target = out or source / REPORT
    write_page(target, page, figures)
    click.echo(f"page                {target}")


def _evaluation_page(folder: Path) -> "Page":
    from scenario_lib.reporting.evaluation_page import evaluation_page

    return evaluation_page(folder)


def _library_page(library: Path, seeds: tuple[int, ...], specs_dir: Path | None, system: str | None) -> "Page":
    from scenario_lib.reporting.library_page import library_page
    from scenario_lib.reporting.scenario_parts import PlayOptions

    return library_page(library, seeds, PlayOptions(specs_dir, system))
