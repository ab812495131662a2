"""A policy's directory: what it holds, how it is written whole or not at all, and how it is read.

`policy.json` says what the policy observes and sets, how and on what it was trained; `actor.json` and
`normalize.json` are what acting needs; `model.zip` is Stable-Baselines3's own file, from which training goes on.
"""

import json
import math
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from scenario_lib.env.observation import ObservationConfig
from scenario_lib.errors import DataFileError, PolicyError
from scenario_lib.feeders.canonical import file_digest
from scenario_lib.feeders.checks import STRICT
from scenario_lib.feeders.parsing import parse_as
from scenario_lib.feeders.regular_files import read_text, require_regular
from scenario_lib.learning.actor import Actor
from scenario_lib.learning.normalization import Normalization
from scenario_lib.learning.settings import TrainingSettings
from scenario_lib.library.files import replacing
from scenario_lib.library.ownership import finished_name

FORMAT_VERSION = 1
"""Raised when a change of the files would make older readers misread them."""

CARD = "policy.json"
ACTOR = "actor.json"
NORMALIZE = "normalize.json"
MODEL = "model.zip"
_FILES = (CARD, ACTOR, NORMALIZE, MODEL)
NEWEST = "policy"  # in the directory of a run

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
    """What `policy.json` says.

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
    _write(folder / ACTOR, asdict(parts.actor))
    _write(folder / NORMALIZE, asdict(parts.normalization))
    parts.write_model(folder / MODEL)
    digests = {name: file_digest(folder / name) for name in (ACTOR, NORMALIZE, MODEL)}
    _write(folder / CARD, {**asdict(parts.card), "digests": digests})


def policy_folder(folder: Path) -> Path:
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
    """What `policy.json` says.

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
