"""`scenario-lib data`: obtain spec caches, measured (gated) or synthetic."""

from pathlib import Path

import click

from scenario_lib.feeders.models import ModelData, shipped_model, shipped_models
from scenario_lib.feeders.published_fits import model_data
from scenario_lib.feeders.published_models import published_model

_models_option = click.option(
    "--model", "labels", multiple=True, help="Only this model, also one of the catalogue; repeat.  [default: the five]"
)


@click.group("data")
def command() -> None:
    """Spec caches: measured traces (gated) or synthetic ones."""


@command.command("fetch")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Directory of the spec cache.")
@click.option("--mlenergy-data-dir", type=click.Path(path_type=Path, exists=True), help="A local copy of the data set.")
@_models_option
def fetch(out: Path, mlenergy_data_dir: Path | None, labels: tuple[str, ...]) -> None:
    """Obtain the measured traces of ML.ENERGY Benchmark v3 through openg2g's own loader.

    The data set is gated: accept its terms on the Hugging Face Hub, and give your token as HF_TOKEN.
    """
    from scenario_lib.simulation.fetch import fetch_measured_specs

    specs = tuple(model.spec for model in _models(labels))
    fetch_measured_specs(out, specs, mlenergy_data_dir)
    click.echo(f"measured spec cache of {len(specs)} models in {out}; build with --specs-dir {out}")


@command.command("synthesize")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Directory of the spec cache.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="0 gives the shipped traces.")
@click.option("--overwrite", is_flag=True, help="Replace folders of the same models.")
@_models_option
def synthesize(out: Path, seed: int, overwrite: bool, labels: tuple[str, ...]) -> None:
    """Write synthetic traces that have the measured statistics, as shipped or with another seed."""
    from scenario_lib.simulation.spec_cache import write_spec_cache

    write_spec_cache(out, _models(labels), seed=seed, overwrite=overwrite)
    click.echo(f"synthetic spec cache in {out}; build with --specs-dir {out}")


def _models(labels: tuple[str, ...]) -> tuple[ModelData, ...]:
    if not labels:
        return shipped_models()
    shipped = {model.spec.label for model in shipped_models()}
    return tuple(
        shipped_model(label) if label in shipped else model_data(published_model(label))
        for label in dict.fromkeys(labels)
    )
