"""What rollouts read, ready to be sent to a cluster: circuits with all files that they name, power traces, a library.

Tasks of building, validating and evaluating hold one of these, and say with it which files travel along.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from scenario_lib.errors import DataFileError
from scenario_lib.execution.task_bundle import PackageFile, SharedFile, shared_file
from scenario_lib.feeders.circuit_files import circuit_files, named_files
from scenario_lib.feeders.experiment import Experiment
from scenario_lib.library.layout import REPORT
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.models.spec_cache import opened_specs
from scenario_lib.simulation.assets import assets_files, load_assets
from scenario_lib.simulation.engines import COMPILED, Engine, prepare
from scenario_lib.simulation.opendss.check import check_feeder

_CIRCUIT, _SPECS, _LIBRARY = Path("circuit"), Path("specs"), Path("library")


@dataclass(frozen=True, slots=True)
class RolloutFiles:
    """Experiments whose circuits, and the spec cache whose traces, rollouts read.

    Attributes:
        experiments: By a name that is a folder's; "" where there is one alone.
        specs_dir: Spec cache; None means the shipped one.
    """

    experiments: dict[str, Experiment]
    specs_dir: Path | None = None

    def packed(self) -> tuple["RolloutFiles", tuple[SharedFile, ...]]:
        """The same with relative paths, and the files that lie at these.

        Raises:
            DataFileError: A circuit names a file by its absolute path, which only this machine has.
        """
        experiments, files = {}, {}
        for name, experiment in self.experiments.items():
            main, *others = circuit_files(Path(experiment.feeder.circuit))
            root = Path(os.path.commonpath([path.parent for path in (main, *others)]))
            _require_relative([main, *others])
            for file in _shared([main, *others], root, _CIRCUIT / name, f"feeders/{experiment.name}"):
                files[file.name] = file
            with opened_specs(experiment.models, self.specs_dir) as specs:
                for file in _shared(assets_files(experiment.models, specs), specs, _SPECS, "specs"):
                    files[file.name] = file
            experiments[name] = _with_circuit(experiment, _CIRCUIT / name / main.relative_to(root))
        return RolloutFiles(experiments, _SPECS), tuple(files.values())

    def at(self, folder: Path) -> "RolloutFiles":
        """The same, packed, where its files were unpacked."""
        experiments = {
            name: _with_circuit(experiment, folder / experiment.feeder.circuit)
            for name, experiment in self.experiments.items()
        }
        return RolloutFiles(experiments, folder / _SPECS)

    def prepare(self, engines: Iterable[Engine]) -> None:
        """Compile circuits and kernels, once a machine."""
        for experiment in self.experiments.values():
            check_feeder(experiment)
            for engine in engines:
                if engine.name == COMPILED:
                    prepare(experiment, load_assets(experiment, self.specs_dir), engine)


def library_files(library: ScenarioLibrary) -> tuple[SharedFile, ...]:
    """All files of a library but its page."""
    paths = sorted(path for path in library.path.iterdir() if path.is_file() and path.name != REPORT)
    return tuple(_shared(paths, library.path, _LIBRARY, "no/library/ships"))


def library_at(folder: Path, from_numbers: bool = False) -> ScenarioLibrary:
    """The library whose files were unpacked into a folder."""
    return ScenarioLibrary(folder / _LIBRARY, from_numbers=from_numbers)


def _with_circuit(experiment: Experiment, circuit: Path) -> Experiment:
    return replace(experiment, feeder=replace(experiment.feeder, circuit=str(circuit)))


def _require_relative(circuit: list[Path]) -> None:
    for path in circuit:
        absolute = [name for name, _ in named_files(path) if Path(name).is_absolute()]
        if absolute:
            raise DataFileError(
                f"{path}: names {absolute[0]}, which the cluster's workers do not have; name it relative to "
                f"this file, and it travels along"
            )


def _shared(paths: Iterable[Path], root: Path, place: Path, shipped: str) -> Iterator[SharedFile]:
    for path in paths:
        below = path.relative_to(root)
        yield shared_file(
            (place / below).as_posix(), path, PackageFile("scenario_lib.data", f"{shipped}/{below.as_posix()}")
        )
