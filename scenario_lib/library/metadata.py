"""The `config` of `metadata.json`: the contract with openg2g's example, read and written.

There the sites come from the experiment named by `system`, PV systems and loads from their stored bases, the overlay
from `training_base`, and the settings from `randomize_kwargs`.

Parse a library's metadata, and refuse what is damaged, edited or newer than this version.
"""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from scenario_lib._files import file_digest, open_regular, read_json, unreadable
from scenario_lib.errors import LibraryError, ScenarioLibError, UnknownNameError
from scenario_lib.feeders.experiment import Experiment, TrainingJob
from scenario_lib.feeders.experiment_file import shipped_experiment
from scenario_lib.feeders.sites import BusPower, PVSystem, TimeVaryingLoad
from scenario_lib.library.arrow_store import RecordsFile, StoredRecords, check_stored_records
from scenario_lib.library.layout import (
    DIGESTED,
    DIGESTS,
    FORMAT_VERSION,
    METADATA,
    RECORDS,
    RESOLVED,
    STORE,
    TRACES,
    StoreLayout,
    parse_layout,
)
from scenario_lib.library.npz_store import FileIdentity, TraceFile, file_identity, unless_replaced
from scenario_lib.library.recipe import Recipe, StratumEntry, loosest_thresholds, read_strata, recipe_from_dict
from scenario_lib.library.record import ScenarioRecord, parse_records
from scenario_lib.library.shards import ShardFiles
from scenario_lib.scenario.settings import RandomizationSettings

CONFIG_BANDS = ("min_recovery_frac", "max_recovery_frac", "min_baseline_integral")
"""Criteria of the screening that the contract's config repeats."""

_IMPLIED = ("ramp_frac_min", "ramp_frac_max")

# Defaults of openg2g's function, which apply to names that a library leaves out; ours are its build command's.
_FUNCTION_DEFAULTS = {"ramp_down_frac_min": 0.15, "ramp_down_frac_max": 0.5}


def config_of(recipe: Recipe, n_candidates: int, bands: dict[str, float]) -> dict[str, Any]:
    """The contract's `config` for a library of one recipe.

    Args:
        recipe: What the records were drawn from.
        n_candidates: Rows of the candidates table.
        bands: `CONFIG_BANDS` of the screening.
    """
    experiment, settings = recipe.experiment, recipe.settings
    job = experiment.overlay
    return {
        "system": experiment.name,
        "n_candidates": n_candidates,
        **bands,
        "pv_base_kw": None,
        "tvl_base_kw": None,
        "use_training_overlay": job is not None,
        "randomize_ramps": settings.randomize_ramps,
        "randomize_kwargs": _contract_settings(settings),
        "pv_systems_base": [_base(system) for system in experiment.pv_systems],
        "tvl_base": [_base(load) for load in experiment.loads],
        "v_min": experiment.limits.v_min_pu,
        "v_max": experiment.limits.v_max_pu,
        "training_base": None
        if job is None
        else {
            "n_gpus": job.n_gpus,
            "target_peak_W_per_gpu": job.target_peak_w_per_gpu,
            "t_start": job.t_start_s,
            "t_end": job.t_end_s,
        },
    }


def _contract_settings(settings: RandomizationSettings) -> dict[str, Any]:
    """The flat settings; openg2g's example never writes the narrow profile's `ramp_frac_*`, so nor do we by default."""
    flat, default = settings.to_openg2g(), RandomizationSettings().to_openg2g()
    return {name: value for name, value in flat.items() if name not in _IMPLIED or value != default[name]}


def _base(element: BusPower) -> dict[str, Any]:
    return {"bus": element.bus, "bus_kv": element.bus_kv, "peak_kw": element.peak_kw_per_phase}


def recipe_from_config(config: dict[str, Any], source: str) -> Recipe:
    """The recipe that the contract's `config` means, for a library without our own keys.

    Raises:
        LibraryError: A key is missing or a value is not what it should be; the message names the source.
        UnknownNameError: The library's system is not known here; the known ones are named.
    """
    try:
        base = shipped_experiment(config["system"])
        flat = {"randomize_ramps": config["randomize_ramps"], **_FUNCTION_DEFAULTS, **config["randomize_kwargs"]}
        return Recipe(_experiment(base, config), RandomizationSettings.from_openg2g(flat))
    except KeyError as error:
        raise LibraryError(f"{source}: config has no {error}; libraries of one recipe have it") from None
    except (TypeError, AttributeError, OverflowError) as error:
        raise LibraryError(f"{source}: config is not what it should be ({error})") from None
    except ScenarioLibError as error:
        raise type(error)(f"{source}: {error}") from None


def _experiment(base: Experiment, config: dict[str, Any]) -> Experiment:
    job = config["training_base"]
    overlay = None
    if job is not None:
        overlay = TrainingJob(
            n_gpus=job["n_gpus"],
            target_peak_w_per_gpu=float(job["target_peak_W_per_gpu"]),
            t_start_s=float(job["t_start"]),
            t_end_s=float(job["t_end"]),
        )
    return replace(
        base,
        pv_systems=tuple(
            PVSystem(e["bus"], float(e["bus_kv"]), float(e["peak_kw"])) for e in config["pv_systems_base"]
        ),
        loads=tuple(TimeVaryingLoad(e["bus"], float(e["bus_kv"]), float(e["peak_kw"])) for e in config["tvl_base"]),
        overlay=overlay,
    )


_MOST_RECIPES = 1000
"""Each is an experiment and its settings, held in memory; merged libraries have tens of them."""

# None of them is in a library by openg2g's example: one that has any must prove itself.
_OWN_KEYS = frozenset({"format_version", "recipes", "proofs", STORE})


@dataclass(frozen=True, slots=True)
class LibraryContents:
    """Contents of `metadata.json`, parsed.

    Attributes:
        config: The contract's `config`, as found.
        recipes: By identifier; a library without our keys has one, under "".
        digests: SHA-256 of the other files; empty for a library without our keys.
        strata: What each recipe's candidates were screened by; one or more a recipe.
        layout: How a sharded library is laid out; None for the contract's two files.
        opened_as: Identity of `metadata.json`, which tells whether another library has taken this one's place.
    """

    config: dict[str, Any]
    records: Sequence[ScenarioRecord]
    recipes: dict[str, Recipe]
    screening: dict[str, float]
    versions: dict[str, str]
    reproducible: bool
    digests: dict[str, str]
    strata: tuple[StratumEntry, ...]
    layout: StoreLayout | None
    opened_as: FileIdentity = None

    @property
    def files(self) -> tuple[str, ...]:
        """Names of all files that must have digests, if the library has any."""
        return DIGESTED if self.layout is None else self.layout.files()

    def numbers_file(self, record: ScenarioRecord) -> str:
        """Name of the file that has a record's resolved numbers."""
        return RESOLVED if self.layout is None else self.layout.shard_of(record.index)

    def traces_file(self, record: ScenarioRecord) -> str:
        """Name of the file that has a record's traces."""
        return TRACES if self.layout is None else self.layout.shard_of(record.index)

    def screening_of(self, recipe: str) -> dict[str, int | float]:
        """The criteria that the candidates of one recipe were screened by; the loosest, if by several."""
        return loosest_thresholds(stratum for stratum in self.strata if stratum.recipe == recipe)

    @contextmanager
    def unchanged(self, path: Path) -> Iterator[BinaryIO]:
        """A table, opened, and compared with its digest before it is parsed; without digests nothing is compared.

        Raises:
            LibraryError: It is missing or another one.
        """
        with unless_replaced(path.parent, self.opened_as), self._compared(path) as stream:
            yield stream

    @contextmanager
    def _compared(self, path: Path) -> Iterator[BinaryIO]:
        try:
            stream = open_regular(path)
        except OSError as error:
            raise unreadable(path, error) from None
        with stream:
            expected = self.digests.get(path.name)
            if expected is not None and hashlib.file_digest(stream, "sha256").hexdigest() != expected:
                raise LibraryError(
                    f"{path}: is not the file that was written with this library, or the library changed since it was "
                    f"opened. Open it again, restore the file, or build the library again"
                )
            stream.seek(0)
            yield stream


_MOST_TRIES = 5


def read_contents(path: Path) -> LibraryContents:
    """Parse a library's metadata; traces and tables stay on disk. An empty library is allowed here.

    A library that is replaced by another while it is read is read again, so that files of two are never mixed.

    Raises:
        LibraryError: Not a library, damaged, edited, or of another format; the message names the file.
    """
    for _ in range(_MOST_TRIES):
        before = file_identity(path)
        if not path.is_dir():
            raise LibraryError(f"{path}: no such directory; give the path of a library")
        try:
            contents = _read(path)
        except LibraryError:
            if file_identity(path) == before:
                raise
        else:
            if file_identity(path) == before:
                return contents
    raise LibraryError(f"{path}: is replaced faster than it can be read; open it again when that has ended")


def _read(path: Path) -> LibraryContents:
    opened_as = file_identity(path / METADATA)
    traces = TraceFile(path / TRACES, file_identity(path / TRACES), opened_as)
    metadata = read_json(path / METADATA)
    source = str(path / METADATA)
    if not isinstance(metadata, dict) or not isinstance(metadata.get("config"), dict):
        raise LibraryError(f"{source}: has no config; expected the metadata of a scenario library")
    ours = not _OWN_KEYS.isdisjoint(metadata) or (path / DIGESTS).exists()
    version = metadata.get("format_version")
    if ours and (type(version) is not int or version != FORMAT_VERSION):
        raise LibraryError(
            f"{source}: has format version {version!r}, this version of scenario-lib reads "
            f"{FORMAT_VERSION}; use the version that wrote it, or build it again"
        )
    digests = _read_digests(path) if ours else {}
    if digests:
        # The records' digests say more than the identity of a file.
        traces = TraceFile(path / TRACES, opened_as=opened_as)
    try:
        recipes = _recipes(metadata, source, ours)
        layout = parse_layout(metadata[STORE], source) if STORE in metadata else None
        if layout is None:
            records: Sequence[ScenarioRecord] = parse_records(metadata, recipes, traces, source)
        else:
            records = _stored_records(path, layout, recipes, digests, opened_as)
        return LibraryContents(
            config=metadata["config"],
            records=records,
            recipes=recipes,
            screening=dict(metadata.get("screening", {})),
            versions=dict(metadata.get("versions", {})),
            reproducible=bool(metadata.get("reproducible", True)),
            digests=digests,
            strata=read_strata(metadata, recipes, source),
            layout=layout,
            opened_as=opened_as,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, LibraryError | UnknownNameError):
            raise
        raise LibraryError(f"{source}: not what a library holds ({error}); it was damaged or edited") from None


def _stored_records(
    path: Path, layout: StoreLayout, recipes: dict[str, Recipe], digests: dict[str, str], opened_as: FileIdentity
) -> StoredRecords:
    file = RecordsFile(path / RECORDS, digests[RECORDS], opened_as)
    records = StoredRecords(file, ShardFiles(path, layout, opened_as), file.read())
    check_stored_records(records, recipes, layout, str(path / RECORDS))
    return records


def _read_digests(path: Path) -> dict[str, str]:
    digests = read_json(path / DIGESTS)
    found = digests.get("sha256") if isinstance(digests, dict) else None
    if not isinstance(found, dict) or METADATA not in found or digests.get("format_version") != FORMAT_VERSION:
        raise LibraryError(f"{path / DIGESTS}: not the digests of a library; it was damaged or edited")
    if file_digest(path / METADATA) != found[METADATA]:
        raise LibraryError(
            f"{path / METADATA}: is not the file that was written with this library (its digest differs from "
            f"{DIGESTS}); restore it, or build the library again"
        )
    return found


def _recipes(metadata: dict[str, Any], source: str, ours: bool) -> dict[str, Recipe]:
    if not ours:
        return {"": recipe_from_config(metadata["config"], source)}
    recipes = metadata["recipes"]
    if len(recipes) > _MOST_RECIPES:
        raise LibraryError(f"{source}: has {len(recipes)} recipes; expected at most {_MOST_RECIPES}")
    return {name: recipe_from_dict(tables, source) for name, tables in recipes.items()}
