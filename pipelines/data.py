"""`scenario-lib data` obtains spec caches; `scenario-lib models` shows the LLMs that an experiment can name."""

import json
from dataclasses import asdict
from pathlib import Path

import click

from scenario_lib.models.cards import ModelCard, model_card, model_cards
from scenario_lib.models.published import model_data, published_model
from scenario_lib.models.specs import ModelData, shipped_model, shipped_models

from .console import aligned, echo_facts, json_option

_models_option = click.option(
    "--model",
    "labels",
    multiple=True,
    help="Only this model, also one of the catalogue; repeat for more.  [default: the five]",
)


@click.group("data")
def data_command() -> None:
    """Obtain spec caches: measured traces (gated) or synthetic ones.

    \b
    Example: scenario-lib data synthesize --out specs --seed 1
    Exit codes: 0 written; 1 refused or failed; 2 usage.
    """


@data_command.command("fetch")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Directory of the spec cache.")
@click.option("--mlenergy-data-dir", type=click.Path(path_type=Path, exists=True), help="A local copy of the data set.")
@_models_option
def fetch(out: Path, mlenergy_data_dir: Path | None, labels: tuple[str, ...]) -> None:
    """Obtain the measured traces of ML.ENERGY Benchmark v3 through openg2g's own loader.

    The data set is gated: accept its terms on the Hugging Face Hub, and give your token as HF_TOKEN.

    \b
    Example: scenario-lib data fetch --out specs
    Exit codes: 0 written; 1 refused or failed; 2 usage.
    """
    from scenario_lib.simulation.assets import fetch_measured_specs

    specs = tuple(model.spec for model in _models(labels))
    fetch_measured_specs(out, specs, mlenergy_data_dir)
    click.echo(f"measured spec cache of {len(specs)} models in {out}; build with --specs-dir {out}")


@data_command.command("synthesize")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Directory of the spec cache.")
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Seed of the traces; 0 gives the shipped ones.",
)
@click.option("--overwrite", is_flag=True, help="Replace folders of the same models.")
@_models_option
def synthesize(out: Path, seed: int, overwrite: bool, labels: tuple[str, ...]) -> None:
    """Write synthetic traces that have the measured statistics, as shipped or with another seed.

    \b
    Example: scenario-lib data synthesize --out specs --seed 1
    Exit codes: 0 written; 1 refused or failed; 2 usage.
    """
    from scenario_lib.models.spec_cache import write_spec_cache

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


_LIST_COLUMNS = ("model", "GPUs", "task", "batch sizes", "kW per replica", "tokens/s", "deadline")
_SHOW_COLUMNS = ("batch size", "W per replica", "tokens/s", "J/token", "ITL p50", "p90", "p95", "p99 (ms)")


@click.group("models")
def models_command() -> None:
    """Show the LLM deployments that an experiment can name: their figures, and what these rest on.

    \b
    Example: scenario-lib models list --gpu B200
    Exit codes: 0 shown; 1 no such model, GPU or task; 2 usage.
    """


@models_command.command("list")
@click.option("--gpu", help="Show only models on this GPU, such as H100 or B200.")
@click.option("--task", help="Show only models for this task: lm-arena-chat, gpqa or sourcegraph-fim.")
@json_option
def list_models(gpu: str | None, task: str | None, as_json: bool) -> None:
    """List the models, one a line, with power and throughput at the smallest and largest feasible batch size.

    \b
    Example: scenario-lib models list --gpu B200
    Exit codes: 0 listed; 1 no such GPU or task; 2 usage.
    """
    cards = model_cards(gpu, task)
    table = aligned([_LIST_COLUMNS, *(_line(card) for card in cards)])
    end = f"{len(cards)} models; name one as a site's model, look at it with 'scenario-lib models show NAME'"
    echo_facts([card.to_dict() for card in cards], [*table, end], as_json)


@models_command.command("show")
@click.argument("name")
@click.option("--toml", "as_toml", is_flag=True, help="Print a table for [[models]] in an experiment file, to change.")
@json_option
def show(name: str, as_toml: bool, as_json: bool) -> None:
    """Show NAME: power, throughput and latency by batch size, the quality of fits, and what is assumed.

    \b
    Example: scenario-lib models show Llama-3.1-8B
    Exit codes: 0 shown; 1 no such model; 2 usage.
    """
    card = model_card(name)
    echo_facts(card.to_dict(), _toml_lines(card) if as_toml else _page(card), as_json)


def _line(card: ModelCard) -> tuple[str, ...]:
    spec, first, last = card.spec, card.feasible[0], card.feasible[-1]
    return (
        spec.label,
        f"{spec.gpus_per_replica} x {spec.gpu_model}",
        spec.task,
        f"{first.batch_size} to {last.batch_size}",
        f"{first.power_w / 1e3:.2f} to {last.power_w / 1e3:.2f}",
        f"{first.output_tokens_per_s:.0f} to {last.output_tokens_per_s:.0f}",
        f"{spec.itl_deadline_s * 1e3:.0f} ms",
    )


def _page(card: ModelCard) -> list[str]:
    spec = card.spec
    lines = [
        spec.label,
        f"weights             {spec.model_id}, {spec.precision}",
        f"served on           {spec.gpus_per_replica} x {spec.gpu_model} per replica, tensor parallel "
        f"{spec.tensor_parallel}, expert parallel {spec.expert_parallel}",
        f"task                {spec.task}",
        f"feasible batches    {', '.join(map(str, spec.feasible_batch_sizes))}",
        f"latency deadline    {spec.itl_deadline_s * 1e3:.0f} ms",
        *(f"figures             {line}" for line in card.basis),
    ]
    if card.quality is not None:
        r_squared = ", ".join(f"{metric} {value:.3f}" for metric, value in card.quality.r_squared.items())
        low, high = card.quality.mean_ratio
        lines.append(f"fits over batches   R^2 {r_squared}")
        lines.append(
            f"latency mixtures    miss a quantile by {card.quality.quantile_error:.1%} at most; mean {low:.2f} to "
            f"{high:.2f} times batch size / throughput"
        )
    return [*lines, "", *aligned([_SHOW_COLUMNS, *_figures(card)])]


def _figures(card: ModelCard) -> list[tuple[str, ...]]:
    return [
        (
            str(row.batch_size),
            f"{row.power_w:.0f}",
            f"{row.output_tokens_per_s:.0f}",
            f"{row.joule_per_token:.3f}",
            *(f"{1e3 * value:.1f}" for value in (row.itl_p50_s, row.itl_p90_s, row.itl_p95_s, row.itl_p99_s)),
        )
        for row in card.figures
    ]


def _toml_lines(card: ModelCard) -> list[str]:
    fields = asdict(card.spec)
    values = {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}
    return ["[[models]]", *(f"{name} = {json.dumps(value)}" for name, value in values.items())]
