"""Measuring candidates on machines that have none of our files: which ones it reads, and how it finds them there."""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from scenario_lib.errors import DataFileError
from scenario_lib.execution.portable import PackageFile, SharedFile, shared_file
from scenario_lib.feeders.circuit_files import circuit_files, named_files
from scenario_lib.library.versions import distributions
from scenario_lib.screening.measure import Candidate, MeasurePlan, measure_candidate
from scenario_lib.simulation.assets import assets_files, load_assets
from scenario_lib.simulation.engines import prepare
from scenario_lib.simulation.feeder_check import check_feeder
from scenario_lib.simulation.spec_folders import opened_specs

_CIRCUIT, _SPECS = Path("circuit"), Path("specs")


@dataclass(frozen=True, slots=True)
class Measuring:
    """Seed in, candidate out: `measure` under a plan, here or, with the files of the plan, elsewhere."""

    plan: MeasurePlan
    measure: Callable[[MeasurePlan, int], Candidate] = measure_candidate

    def __call__(self, seed: int) -> Candidate:
        return self.measure(self.plan, seed)

    def packed(self) -> "tuple[Measuring, tuple[SharedFile, ...]]":
        """The same with relative paths, and the files of the circuit and the spec cache.

        Raises:
            DataFileError: The circuit names a file by its absolute path, which only this machine has.
        """
        experiment = self.plan.experiment
        main, *others = circuit_files(Path(experiment.feeder.circuit))
        root = Path(os.path.commonpath([path.parent for path in (main, *others)]))
        _require_relative([main, *others])
        with opened_specs(experiment.models, self.plan.specs_dir) as specs:
            files = (
                *_shared([main, *others], root, _CIRCUIT, f"feeders/{experiment.name}"),
                *_shared(assets_files(experiment.models, specs), specs, _SPECS, "specs"),
            )
        return self._with_paths(_CIRCUIT / main.relative_to(root), _SPECS), files

    def distributions(self) -> tuple[str, ...]:
        """Of what computes the figures."""
        return distributions()

    def at(self, folder: Path) -> "Measuring":
        """The same with circuit and spec cache where they were unpacked."""
        return self._with_paths(folder / self.plan.experiment.feeder.circuit, folder / _SPECS)

    def _with_paths(self, circuit: Path, specs_dir: Path) -> "Measuring":
        feeder = replace(self.plan.experiment.feeder, circuit=str(circuit))
        experiment = replace(self.plan.experiment, feeder=feeder)
        return replace(self, plan=replace(self.plan, experiment=experiment, specs_dir=specs_dir))

    def prepare(self) -> None:
        """Compile the circuit, and the engine's kernels, once a machine."""
        plan = self.plan
        check_feeder(plan.experiment)
        prepare(plan.experiment, load_assets(plan.experiment, plan.specs_dir), plan.engine)


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
