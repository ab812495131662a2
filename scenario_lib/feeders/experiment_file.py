"""Read an experiment from its TOML file: the shipped ones and a user's own feeder alike.

The file names an OpenDSS circuit beside it and describes sites, PV systems, loads, an overlay, OFO tuning and
limits, table by table under the names of this package's types. A model is one that ships or is in the catalogue
(named by its label), or described under `[[models]]`.

Experiments by name (those that ship) or by file (a user's own feeder).
"""

import csv
import io
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scenario_lib._files import open_regular, require_regular
from scenario_lib._parsing import EXPERIMENT, data_dir, parse_settings_file, read_toml
from scenario_lib._values import STRICT, refused, require_distinct
from scenario_lib.errors import DataFileError, InvalidSettingError, MissingDataError, UnknownNameError
from scenario_lib.feeders.experiment import Experiment, Feeder, OFOTuning, TrainingJob, VoltageLimits
from scenario_lib.feeders.sites import DatacenterPhysics, PVSystem, Site, TimeVaryingLoad
from scenario_lib.models.published import known_spec
from scenario_lib.models.specs import ModelSpec


@dataclass(frozen=True, slots=True)
class BuildDefaults:
    """What a build on this experiment does unless told otherwise."""

    __pydantic_config__ = STRICT

    randomize_ramps: bool = True


@dataclass(frozen=True, slots=True)
class ExperimentFile:
    """The tables of an experiment file, as they stand there."""

    __pydantic_config__ = STRICT

    feeder: Feeder
    sites: tuple[Site, ...]
    pv_systems: tuple[PVSystem, ...] = ()
    loads: tuple[TimeVaryingLoad, ...] = ()
    overlay: TrainingJob | None = None
    ofo: OFOTuning = OFOTuning()
    limits: VoltageLimits = VoltageLimits()
    datacenter: DatacenterPhysics = DatacenterPhysics()
    build: BuildDefaults = BuildDefaults()
    models: tuple[ModelSpec, ...] = ()


def read_experiment(path: Path) -> Experiment:
    """Experiment described by one TOML file.

    Raises:
        MissingDataError: The file, its circuit or a profile CSV is missing.
        DataFileError: A table or value is not what it should be; the message names file and field.
    """
    path = Path(path).resolve()
    tables = read_toml(path, EXPERIMENT)
    for kind in ("pv_systems", "loads"):
        for table in _tables(tables.get(kind)):
            _inline_series(table, path)
    parsed = parse_settings_file(ExperimentFile, tables, str(path))
    circuit = (path.parent / parsed.feeder.circuit).resolve()
    if not circuit.is_file():
        require_regular(circuit)
        raise MissingDataError(f"{path}: [feeder] circuit names {circuit}, which is not a file; correct the path")
    try:
        return _assemble(parsed, replace(parsed.feeder, circuit=str(circuit)))
    except InvalidSettingError as error:
        raise DataFileError(f"{path}: {error}") from None
    except UnknownNameError as error:
        raise DataFileError(f"{path}: label in [[sites]]: {error}; describe others under [[models]]") from None


def _assemble(parsed: ExperimentFile, feeder: Feeder) -> Experiment:
    require_distinct("label in [[models]]", (spec.label for spec in parsed.models))
    own = {spec.label: spec for spec in parsed.models}
    labels = dict.fromkeys(deployment.label for site in parsed.sites for deployment in site.models)
    models = tuple(own[label] if label in own else known_spec(label) for label in labels)
    for site in parsed.sites:
        _require_shared_batch_sizes(site, {spec.label: spec for spec in models})
    return Experiment(
        feeder=feeder,
        sites=parsed.sites,
        pv_systems=parsed.pv_systems,
        loads=parsed.loads,
        models=models,
        overlay=parsed.overlay,
        limits=parsed.limits,
        ofo=parsed.ofo,
        datacenter=parsed.datacenter,
        randomize_ramps_default=parsed.build.randomize_ramps,
    )


def _require_shared_batch_sizes(site: Site, specs: dict[str, ModelSpec]) -> None:
    """A controller steers all models of a site over one list of batch sizes: whatever one may take, all must have."""
    shared = {size for deployment in site.models for size in specs[deployment.label].feasible_batch_sizes}
    for deployment in site.models:
        missing = sorted(shared - set(specs[deployment.label].batch_sizes))
        if missing:
            raise InvalidSettingError(
                f"models of site {site.name}: {deployment.label} was not measured at batch sizes {missing}, which "
                f"others at this site may take; expected one list for a site: give the models sites of their own, or "
                f"fewer feasible_batch_sizes under [[models]] ('scenario-lib models show LABEL --toml' prints a table)"
            )


def _tables(entries: Any) -> list[dict[str, Any]]:
    """The tables of an array of tables; what is none is left to the parser, which names it."""
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _inline_series(table: dict[str, Any], source: Path) -> None:
    """Replace `series_csv = "name.csv"` by the series in that file, so that the parsed value is complete."""
    if "series_csv" not in table:
        return
    name = table.pop("series_csv")
    if not isinstance(name, str) or "series" in table:
        raise DataFileError(
            f"{source}: series_csv is {name!r}; expected the name of a CSV file, and no series beside it"
        )
    pairs = _read_series(source.parent / name, source)
    table["series"] = {"time_s": [time for time, _ in pairs], "kw_per_phase": [power for _, power in pairs]}


def _read_series(path: Path, source: Path) -> list[tuple[float, float]]:
    expected = "expected a header line and below it two columns, time (s) and power (kW per phase)"
    try:
        with io.TextIOWrapper(open_regular(path), encoding="utf-8", newline="") as stream:
            header, *rows = [row for row in csv.reader(stream) if row] or [[]]
        pairs = [(float(time), float(power)) for time, power in rows]
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        raise MissingDataError(f"{path}: no such file; series_csv in {source} names it") from None
    except ValueError as error:
        raise DataFileError(f"{path}: {error}; {expected}") from None
    if not pairs or any(map(_is_number, header)):
        raise DataFileError(f"{path}: begins with {','.join(header)!r} and has {len(pairs)} rows below; {expected}")
    return pairs


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def experiment_names() -> tuple[str, ...]:
    """Names of the experiments that ship."""
    return tuple(sorted(path.parent.name for path in data_dir().glob("feeders/*/experiment.toml")))


def load_experiment(system: str | os.PathLike[str]) -> Experiment:
    """Experiment of a shipped feeder by name, or of a user's own by the path of its TOML file.

    Raises:
        UnknownNameError: Neither a known name nor a TOML file.
        MissingDataError: The named file, or one that it names, is missing.
        DataFileError: The file does not describe an experiment.
    """
    if str(system).endswith(".toml"):
        return read_experiment(Path(system))
    return shipped_experiment(system)


def as_experiment(field: str, value: object) -> Experiment:
    """An experiment, or what `load_experiment` takes; see `arguments`."""
    if isinstance(value, Experiment):
        return value
    if not isinstance(value, str | os.PathLike):
        raise refused(field, value, "an Experiment, a shipped feeder's name, or the path of an experiment's TOML file")
    return load_experiment(value)


def shipped_experiment(system: object) -> Experiment:
    """Experiment of a shipped feeder, never a file that whoever named it chose.

    Raises:
        UnknownNameError: Not a known name.
    """
    if str(system) not in experiment_names():
        known = ", ".join(experiment_names())
        raise UnknownNameError(
            f"system {str(system)!r} is not known; expected one of {known}, or the path of an experiment's TOML file"
        )
    return read_experiment(data_dir() / "feeders" / str(system) / "experiment.toml")
