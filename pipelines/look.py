"""`scenario-lib info`: what a person wants to know before training on a library.

`scenario-lib show`: one drawn scenario as JSON.

`scenario-lib report`: a library, or an evaluation of policies, as one page to look at.

`scenario-lib compare`: several libraries side by side, as one page to look at.

`scenario-lib diff`: what changed from one library, or one night, to another.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scenario_lib._parsing import SHIPPED_KINDS, shipped_files
from scenario_lib._values import likely, shown
from scenario_lib.analysis.diff import diff_libraries, diff_lines
from scenario_lib.analysis.info import library_info
from scenario_lib.errors import InvalidSettingError, ScenarioLibError
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.scenario.model import Scenario
from scenario_lib.scenario.randomize import randomize_scenario
from scenario_lib.screening.recipe_file import parse_strata, read_recipe_tables, recipe_for_seed

from .console import echo_facts, echo_json, json_option
from .options import recipe_option, specs_dir_option

if TYPE_CHECKING:
    from scenario_lib.reporting.page import Page


@click.command("info")
@click.argument("library", type=click.Path(path_type=Path))
@json_option
def info_command(library: Path, as_json: bool) -> None:
    """Show what LIBRARY holds: records by kind, recovery, windows, rejected candidates, recipe, versions.

    \b
    Example: scenario-lib info libraries/ieee13
    Exit codes: 0 shown; 1 refused or failed; 2 usage.
    """
    info = library_info(library)
    echo_facts(info.to_dict(), info.lines(), as_json)


@click.command("recipes")
@click.argument("name", required=False)
@json_option
def recipes_command(name: str | None, as_json: bool) -> None:
    """List the settings files that ship, or print the one of NAME, to change a copy of it.

    Names of recipes and of training settings may stand for their files in --config. Of a recipe and training settings
    of one name the recipe is printed; training/NAME names the other.

    \b
    Examples: scenario-lib recipes
              scenario-lib recipes ieee13 > my-recipe.toml
    Exit codes: 0 shown; 2 usage, such as a name that does not ship.
    """
    found = {f"{kind}/{stem}": path for kind in SHIPPED_KINDS for stem, path in shipped_files(kind).items()}
    if name is not None:
        path = found.get(name) or shipped_files("recipes").get(name)
        if path is None:
            known = [*shipped_files("recipes"), *found]
            raise click.UsageError(f"no shipped settings {shown(name)}; {likely(name, known)}")
        click.echo(path.read_text(encoding="utf-8"), nl=False)
        return
    rows = {title: path.read_text(encoding="utf-8").splitlines()[0].lstrip("# ") for title, path in found.items()}
    width = max(map(len, rows))
    facts = [{"name": title, "file": str(found[title]), "about": about} for title, about in rows.items()]
    echo_facts({"settings": facts}, [f"{title:{width}}  {about}" for title, about in rows.items()], as_json)


@click.command("show")
@click.argument("seed", type=int)
@recipe_option
@click.option("--system", help="Draw on this feeder with the default settings.")
@click.option("--library", type=click.Path(path_type=Path), help="Library whose record of that seed is shown.")
@click.option(
    "--json", is_flag=True, expose_value=False, help="Accepted as everywhere; a scenario is always printed as JSON."
)
def show_command(seed: int, config: Path | None, system: str | None, library: Path | None) -> None:
    """Print the scenario of SEED, drawn on a feeder (--system), by a recipe (--config), or from a library.

    \b
    Example: scenario-lib show 7 --system ieee13
    Exit codes: 0 shown; 1 refused or failed; 2 usage.
    """
    echo_json(_scenario(seed, config, system, library).to_dict())


def _scenario(seed: int, config: Path | None, system: str | None, library: Path | None) -> Scenario:
    if library is not None and config is None and system is None:
        opened = ScenarioLibrary(library)
        return opened.materialize(opened.record_for(seed))
    if library is not None or (config is None and system is None):
        raise InvalidSettingError("where from? Give --library, or --system and/or --config")
    tables: dict[str, Any] = read_recipe_tables(config) if config else {}
    source = str(config or "command line")
    recipe = recipe_for_seed(parse_strata({**tables, "system": system} if system else tables, source), seed, source)
    experiment = recipe.experiment()
    return randomize_scenario(seed, experiment=experiment, settings=recipe.settings(experiment))


@click.command("report")
@click.argument("library", type=click.Path(path_type=Path), required=False)
@click.option(
    "--evaluation",
    type=click.Path(path_type=Path),
    help="Write about an evaluation instead: the --out directory of 'evaluate'.",
)
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), help="File of the page.  [default: report.html inside]"
)
@click.option("--figures", type=click.Path(path_type=Path, file_okay=False), help="Also write figures as SVG and PNG.")
@click.option(
    "--scenario",
    "seeds",
    type=int,
    multiple=True,
    help="Seed of a scenario to show; repeat for more.  [default: telling ones]",
)
@click.option("--system", help="The experiment's TOML file, for a library on a feeder of your own.")
@specs_dir_option
def report_command(
    library: Path | None, evaluation: Path | None, out: Path | None, figures: Path | None, **play: Any
) -> None:
    """Write a page about LIBRARY: what is inside, what was rejected and why, single scenarios, provenance.

    \b
    Example: scenario-lib report libraries/ieee13

    The page is one file that needs no network. Needs the extra 'plot'.

    \b
    Exit codes: 0 written; 1 refused or failed; 2 usage.
    """
    source = library or evaluation
    if source is None or (library and evaluation):
        raise InvalidSettingError("what is the page about? Give a library, or --evaluation with a directory")
    # Imported here, because matplotlib takes a while that help need not pay.
    from scenario_lib.learning.comparison import SCENARIOS
    from scenario_lib.library.layout import METADATA, REPORT
    from scenario_lib.reporting.page import require_page_place, write_page

    if out is not None:
        require_page_place(out)
    if library and (library / SCENARIOS).is_file() and not (library / METADATA).exists():
        raise InvalidSettingError(f"{library}: is an evaluation, not a library; give it as --evaluation")
    page = _evaluation_page(source) if library is None else _library_page(source, **play)
    target = out or source / REPORT
    write_page(target, page, figures)
    click.echo(f"page                {target}")


def _evaluation_page(folder: Path) -> "Page":
    from scenario_lib.reporting.comparison_page import evaluation_page

    return evaluation_page(folder)


def _library_page(library: Path, seeds: tuple[int, ...], specs_dir: Path | None, system: str | None) -> "Page":
    from scenario_lib.reporting.library_page import library_page
    from scenario_lib.reporting.sections import PlayOptions

    return library_page(library, seeds, PlayOptions(specs_dir, system))


@click.command("compare")
@click.argument("libraries", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), required=True, help="File of the page.")
@click.option("--figures", type=click.Path(path_type=Path, file_okay=False), help="Also write figures as SVG and PNG.")
def compare_command(libraries: tuple[Path, ...], out: Path, figures: Path | None) -> None:
    """Write a page about two or more LIBRARIES: acceptance, kinds, recovery, difficulty, windows, versions.

    \b
    Example: scenario-lib compare libraries/first libraries/second --out compared.html
    Exit codes: 0 written; 1 refused or failed; 2 usage.
    """
    from scenario_lib.reporting.comparison_page import comparison_page
    from scenario_lib.reporting.page import require_page_place, write_page

    require_page_place(out)
    write_page(out, comparison_page(libraries), figures)
    click.echo(f"page                {out}")


EXIT_DIFFERENT = 1
EXIT_TROUBLE = 2


@click.command("diff")
@click.argument("before", type=click.Path(path_type=Path))
@click.argument("after", type=click.Path(path_type=Path))
@json_option
def diff_command(before: Path, after: Path, as_json: bool) -> None:
    """Compare two libraries: records, verdicts with their margins, distributions, versions and data.

    \b
    Example: scenario-lib diff libraries/monday libraries/tuesday
    Exit codes: 0 equal; 1 different; 2 usage, or one of them is not a library that can be read.
    """
    try:
        diff = diff_libraries(before, after)
    except ScenarioLibError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(EXIT_TROUBLE)
    echo_facts(diff.to_dict(), diff_lines(diff), as_json)
    sys.exit(0 if diff.equal else EXIT_DIFFERENT)
