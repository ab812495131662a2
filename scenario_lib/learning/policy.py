"""A policy's directory: what it holds, how it is written whole or not at all, and how it is read.

`policy.json` says what the policy observes and sets, how and on what it was trained; `actor.json` and
`normalize.json` are what acting needs; `model.zip` is Stable-Baselines3's own file, from which training goes on.

A trained policy, and the same policy as an openg2g controller.
"""

import json
import math
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from openg2g.controller.base import Controller
from openg2g.datacenter.base import DatacenterBackend
from openg2g.datacenter.command import SetBatchSize
from openg2g.grid.base import GridBackend

from scenario_lib._files import file_digest, first_difference, read_text, replacing, require_regular
from scenario_lib._parsing import parse_as
from scenario_lib._values import MOST_GPUS, STRICT, as_path, few, positive, refuse, require_count
from scenario_lib.env.action import action_space, decode_action
from scenario_lib.env.observation import ObservationConfig, build_observation, merge_states, zone_masks_of
from scenario_lib.errors import DataFileError, InvalidSettingError, PolicyError
from scenario_lib.learning.actor import Actor, Normalization
from scenario_lib.learning.settings import TrainingSettings
from scenario_lib.library.place import finished_name

FORMAT_VERSION = 1
"""Raised when a change of the files would make older readers misread them."""

CARD = "policy.json"
_ACTOR = "actor.json"
NORMALIZE = "normalize.json"
MODEL = "model.zip"
_FILES = (CARD, _ACTOR, NORMALIZE, MODEL)
NEWEST = "policy"  # in the directory of a run

_LARGEST_BATCH, _MOST_BATCH_SIZES = 1_000_000, 1000
_DEADLINE_S = positive(3600)
_LARGEST_BYTES = 256 * 1024**2

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TrainedRecord:
    """A record that the policy was trained on."""

    __pydantic_config__: ClassVar[dict[str, object]] = STRICT

    seed: int
    recipe: str
    scenario_digest: str


@dataclass(frozen=True, slots=True)
class TrainingLibrary:
    """The library that the policy was trained on.

    Attributes:
        digest: SHA-256 of its metadata.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = STRICT

    digest: str
    records: tuple[TrainedRecord, ...]


@dataclass(frozen=True, slots=True)
class PolicyCard:
    """Contents of `policy.json`.

    Attributes:
        feeder: Name of the feeder.
        bus_phases: The (bus, phase) pairs of its voltages.
        sites: By site, the labels of the models whose batch sizes the policy sets.
        observation_config: The observation's layout.
        settings: How it was trained; observation mode, action mode and reward are among them.
        steps: Environment steps that it was trained for.
        versions: Installed versions by name.
        digests: SHA-256 of the other files by name.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = STRICT

    format_version: int
    feeder: str
    bus_phases: tuple[tuple[str, int], ...]
    sites: dict[str, tuple[str, ...]]
    observation_config: ObservationConfig
    settings: TrainingSettings
    library: TrainingLibrary
    steps: int
    versions: dict[str, str]
    digests: dict[str, str]

    def __post_init__(self) -> None:
        labels = [label for site in self.sites.values() for label in site]
        if tuple(labels) != self.observation_config.model_labels:
            raise PolicyError(f"sites have the models {labels}, the observation {self.observation_config.model_labels}")
        for label in labels:
            _require_figures(self.observation_config, label)


def _require_figures(config: ObservationConfig, label: str) -> None:
    """Refuse a model of which the observation or the action would make nonsense."""
    sizes = config.feasible_batch_sizes.get(label, ())
    require_count(f"number of feasible_batch_sizes of {label}", len(sizes), 1, _MOST_BATCH_SIZES)
    for size in sizes:
        require_count(f"feasible_batch_sizes of {label}", size, 1, _LARGEST_BATCH)
    if any(later <= earlier for earlier, later in pairwise(sizes)):
        raise refuse(f"feasible_batch_sizes of {label}", sizes, "batch sizes that increase")
    _DEADLINE_S.require(f"itl_deadlines of {label}", config.itl_deadlines.get(label, 0.0))
    require_count(f"max_replicas of {label}", config.max_replicas.get(label, 1), 0, MOST_GPUS)


@dataclass(frozen=True, slots=True)
class PolicyParts:
    """What a policy directory is written from.

    Attributes:
        write_model: Writes Stable-Baselines3's file at a path.
    """

    card: PolicyCard
    actor: Actor
    normalization: Normalization
    write_model: Callable[[Path], None]


@contextmanager
def whole_directory(folder: Path) -> Iterator[Path]:
    """A directory to fill, which replaces `folder` when the block ends without an error."""
    fresh = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    old = folder.with_name(f".{folder.name}.{os.getpid()}.old")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    try:
        yield fresh
        if folder.exists():
            folder.rename(old)
        fresh.rename(folder)
        _keep_others(old, folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def _keep_others(old: Path, folder: Path) -> None:
    """Whatever somebody put beside a policy's files moves along."""
    for path in old.iterdir() if old.is_dir() else ():
        if finished_name(path.name) not in _FILES:
            path.rename(folder / path.name)


def write_policy(folder: Path, parts: PolicyParts) -> None:
    """Write a policy's files into an existing directory, `policy.json` last."""
    _write(folder / _ACTOR, asdict(parts.actor))
    _write(folder / NORMALIZE, asdict(parts.normalization))
    parts.write_model(folder / MODEL)
    digests = {name: file_digest(folder / name) for name in (_ACTOR, NORMALIZE, MODEL)}
    _write(folder / CARD, {**asdict(parts.card), "digests": digests})


def _policy_folder(folder: Path) -> Path:
    """The policy's directory: the given one, or `policy` within that of a training run.

    Raises:
        PolicyError: Neither has a `policy.json`.
        IrregularFileError: One has that name, and is no file.
    """
    for candidate in (folder, folder / NEWEST):
        if (candidate / CARD).is_file():
            return candidate
        require_regular(candidate / CARD)
    raise PolicyError(
        f"{folder}: has no {CARD}, nor has {folder / NEWEST}; give the directory of a training run, of one of its "
        f"checkpoints, or of a policy"
    )


def read_card(folder: Path) -> PolicyCard:
    """Contents of `policy.json`.

    Raises:
        PolicyError: It is missing, of another format version, or not what it should be.
    """
    tables = _read(folder / CARD)
    version = tables.get("format_version") if isinstance(tables, dict) else None
    if version != FORMAT_VERSION:
        raise PolicyError(
            f"{folder / CARD}: has format version {version!r}; this version of scenario-lib reads {FORMAT_VERSION}. "
            f"Use the version that wrote it, or train again"
        )
    return _parsed(PolicyCard, tables, folder / CARD)


def read_part(folder: Path, card: PolicyCard, name: str, kind: type[T]) -> T:
    """`actor.json` or `normalize.json`, compared with its digest.

    Raises:
        PolicyError: It is missing, not the file that was written with this policy, or not what it should be.
    """
    require_unchanged(folder, card, name)
    return _parsed(kind, _read(folder / name), folder / name)


def require_unchanged(folder: Path, card: PolicyCard, name: str) -> None:
    """Refuse a file that was not written with this policy.

    Raises:
        PolicyError: It is missing, or its digest differs.
    """
    path = folder / name
    if not path.is_file():
        raise PolicyError(f"{path}: no such file; the policy is damaged, restore it or train again")
    if file_digest(path) != card.digests.get(name):
        raise PolicyError(f"{path}: is not the file that was written with {CARD} (its digest differs); restore it")


def _parsed(kind: type[T], tables: Any, path: Path) -> T:
    try:
        return parse_as(kind, tables, str(path))
    except DataFileError as error:
        raise PolicyError(str(error)) from None


def _write(path: Path, value: dict[str, Any]) -> None:
    """Strict JSON, one key a line. Keys stay in order: that of zones and sites is the order of what is observed."""
    lines = (f"{json.dumps(key)}: {json.dumps(entry, allow_nan=False)}" for key, entry in value.items())
    with replacing(path) as stream:
        stream.write(("{\n" + ",\n".join(lines) + "\n}\n").encode())


def _read(path: Path) -> Any:
    if path.is_file() and path.stat().st_size > _LARGEST_BYTES:
        raise PolicyError(f"{path}: has {path.stat().st_size} bytes; expected at most {_LARGEST_BYTES}")
    try:
        return json.loads(read_text(path), parse_constant=_finite, parse_float=_finite)
    except (OSError, ValueError, RecursionError) as error:
        raise PolicyError(
            f"{path}: cannot be read ({error}); the policy is damaged, restore it or train again"
        ) from None


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is not allowed; expected finite numbers")
    return value


@dataclass(frozen=True, repr=False)
class TrainedPolicy:
    """A policy that `scenario-lib train` wrote. It acts without randomness, needs no PyTorch, and can be pickled.

    Attributes:
        name: What tables call it.
        card: What it observes and sets, how and on what it was trained.
    """

    name: str
    card: PolicyCard
    normalization: Normalization
    actor: Actor

    def __repr__(self) -> str:
        return f"TrainedPolicy({self.name!r}: sites {', '.join(self.card.sites)} on {self.card.feeder})"

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> "TrainedPolicy":
        """The policy of a training run, of a checkpoint, or of a policy directory.

        Raises:
            PolicyError: It is not one, damaged, edited, or of another format version.
        """
        folder = _policy_folder(as_path("directory", directory))
        card = read_card(folder)
        policy = cls(
            name=_name(folder),
            card=card,
            normalization=read_part(folder, card, NORMALIZE, Normalization),
            actor=read_part(folder, card, _ACTOR, Actor),
        )
        _require_fitting(policy, folder)
        return policy

    def act(self, observation: NDArray[np.float32]) -> NDArray[np.int64]:
        """The likeliest action for an observation of the environment, shape (obs_dim,).

        Raises:
            InvalidSettingError: The observation has another shape.
        """
        if np.shape(observation) != (self.actor.n_inputs,):
            raise InvalidSettingError(
                f"the observation has shape {np.shape(observation)}; policy {self.name} expects "
                f"({self.actor.n_inputs},)"
            )
        return self.actor.act(self.normalization.observed(observation))

    def controllers(self, datacenters: Mapping[str, Any], grid: Any) -> list[Controller]:
        """The one controller that runs this policy in a rollout.

        Raises:
            PolicyError: The rollout lacks one of the policy's sites.
        """
        return [PolicyController(self, datacenters, grid)]


def _require_fitting(policy: TrainedPolicy, folder: Path) -> None:
    """Refuse files that do not belong together: each slot has its statistics, each move of a model its output."""
    config, mode = policy.card.observation_config, policy.card.settings.environment.action
    slots = config.obs_dim
    if policy.actor.n_inputs != slots:
        raise PolicyError(f"{folder}: the actor has {policy.actor.n_inputs} inputs, the observation {slots} slots")
    space: Any = action_space(mode, config.model_labels, config.feasible_batch_sizes)
    choices = (int(space.n),) if hasattr(space, "n") else tuple(int(n) for n in space.nvec)
    if policy.actor.choices != choices or policy.actor.single != hasattr(space, "n"):
        raise PolicyError(f"{folder}: the actor chooses among {policy.actor.choices}; action {mode!r} has {choices}")
    for name, statistics, expected in (
        ("observations", policy.normalization.observations, slots),
        ("returns", policy.normalization.returns, 1),
    ):
        if statistics is not None and len(statistics.mean) != expected:
            raise PolicyError(
                f"{folder / NORMALIZE}: {name} have statistics of {len(statistics.mean)} slots; expected {expected}"
            )


def _name(folder: Path) -> str:
    """The name of a run for its policy; otherwise that of the directory."""
    resolved = folder.resolve()
    return resolved.parent.name if resolved.name == NEWEST else resolved.name


class ActingPolicy(Protocol):
    """A policy that observes what its card says."""

    @property
    def name(self) -> str:
        """Its name in tables."""
        ...

    @property
    def card(self) -> PolicyCard:
        """What it observes and sets."""
        ...

    def act(self, observation: NDArray[np.float32]) -> NDArray[np.int64]:
        """The action for an observation, of the environment's shape."""
        ...


class PolicyController(Controller[DatacenterBackend, GridBackend]):  # type: ignore[misc]
    """A trained policy as an openg2g controller.

    What the environment does between two observations happens here in one second: the state at the end of second t
    is observed, and the batch sizes decided from it act in second t + 1.

    Args:
        policy: Decides.
        datacenters: By site; those of the policy's sites are observed and set, others are left alone.
        grid: Source of voltages.

    Raises:
        PolicyError: A site of the policy is missing; at `start`, the feeder's bus-phases are not the policy's.
    """

    def __init__(self, policy: "ActingPolicy", datacenters: Mapping[str, Any], grid: Any) -> None:
        missing = [site for site in policy.card.sites if site not in datacenters]
        if missing:
            raise PolicyError(
                f"policy {policy.name} sets batch sizes at {few(missing)}; the rollout has sites {few(datacenters)}"
            )
        self._policy = policy
        self._datacenters = {site: datacenters[site] for site in policy.card.sites}
        self._grid = grid
        self._previous: dict[str, int] | None = None

    @property
    def dt_s(self) -> Fraction:
        """One decision a second."""
        return Fraction(1)

    def reset(self) -> None:
        """Forget the previous batch sizes."""
        self._previous = None

    def start(self) -> None:
        """Compare the feeder with the one that the policy was trained on."""
        found = [[str(bus), int(phase)] for bus, phase in self._grid.v_index]
        difference = first_difference(found, [list(pair) for pair in self._policy.card.bus_phases], "bus-phases")
        if difference:
            raise PolicyError(f"policy {self._policy.name} was trained on another feeder: {difference}")
        self._masks = zone_masks_of(self._policy.card.observation_config, self._grid.v_index)

    def step(self, clock: Any, events: Any) -> list[SetBatchSize]:
        """Observe, decide, and command the sites."""
        del clock, events
        config = self._policy.card.observation_config
        observed = list(self._datacenters.values())
        batch_sizes = merge_states(observed).batch_sizes
        running = {label: int(batch_sizes[label]) for label in config.model_labels}
        observation = build_observation(self._grid, observed, config, self._previous or running, *self._masks)
        self._previous = running
        wanted = decode_action(
            self._policy.act(observation),
            self._policy.card.settings.environment.action,
            config.model_labels,
            config.feasible_batch_sizes,
            running,
        )
        return [
            SetBatchSize(batch_size_by_model={label: wanted[label] for label in labels}, target=self._datacenters[site])
            for site, labels in self._policy.card.sites.items()
        ]
