"""Replay a held-out library under no control, a rule, OFO and trained policies, and compare.

What makes figures of a library doubtful is told: a policy that was trained on it, or other data than it was built on.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from scenario_lib._values import (
    as_flag,
    as_path,
    as_system,
    as_text,
    as_whole_number,
    built_as,
    convert_fields,
    few,
    instance_of,
    optional,
    require_count,
    shown,
    tuple_of,
)
from scenario_lib.errors import InvalidSettingError, PolicyError, SharedSeedsError, UnknownNameError
from scenario_lib.execution.task_bundle import SharedFile
from scenario_lib.execution.tasks import RunOptions, TaskOutcome, require_usable, run_tasks
from scenario_lib.feeders.experiment import Experiment
from scenario_lib.learning.any_trainer import AnyPolicy, as_policy_source, load_policy
from scenario_lib.learning.comparison import Comparison, Figures, ScenarioFigures, figures_of
from scenario_lib.learning.environments import record_identity
from scenario_lib.learning.policy import TrainedPolicy
from scenario_lib.learning.policy_rollout import PolicyTeam, run_trained
from scenario_lib.library.library import AnyLibrary, ScenarioLibrary, opened
from scenario_lib.library.provenance import distributions
from scenario_lib.library.recipe import located_experiment
from scenario_lib.library.record import ScenarioRecord
from scenario_lib.library.views import spread_records
from scenario_lib.scenario.model import Scenario
from scenario_lib.screening.criteria import as_screened, tuning_text
from scenario_lib.screening.portable import RolloutFiles, library_at, library_files
from scenario_lib.simulation.assets import Assets, assets_digest, load_assets
from scenario_lib.simulation.controller import ControllerPolicy, as_controller
from scenario_lib.simulation.engines import REFERENCE, Engine, as_engine, prepare, simulator
from scenario_lib.simulation.opendss.datacenters import POLICIES
from scenario_lib.simulation.rollout import Rollout, run_reference

_MOST_NAMED = 5


def held_out_warnings(
    library: ScenarioLibrary, policies: Sequence[AnyPolicy], allow_shared_seeds: bool
) -> tuple[str, ...]:
    """Sentences about seeds that a library shares with what policies were trained on; none where all is well.

    A record is shared if seed and recipe are equal, or the drawn scenario is (its recipe may say other data). A seed
    under another recipe is another scenario, of which some draws may be equal: that is only a warning.

    Raises:
        SharedSeedsError: A policy was trained on some of the library's records, and that is not allowed.
    """
    here = [record_identity(library, record) for record in library]
    warnings = []
    for policy in policies:
        there = policy.card.library.records
        drawn = {(record.recipe, record.seed) for record in there}
        digests = {record.scenario_digest for record in there}
        seeds = {record.seed for record in there}
        shared = [r.seed for r in here if (r.recipe, r.seed) in drawn or r.scenario_digest in digests]
        if shared and not allow_shared_seeds:
            raise SharedSeedsError(
                f"policy {policy.name} was trained on {_named(shared)} of {library.path}: its figures would say "
                f"nothing about scenarios that it has not seen. Build a library from other seeds (--seed-start), or "
                f"allow it (--allow-shared-seeds)"
            )
        if shared:
            warnings.append(f"policy {policy.name} was trained on {_named(shared)} of this library")
        alike = [record.seed for record in here if record.seed in seeds and record.seed not in shared]
        if alike:
            warnings.append(f"policy {policy.name} was trained on {_named(alike)} of this library, with other settings")
    return tuple(warnings)


def other_data(library: ScenarioLibrary, specs_dir: Path | None, system: str | None) -> str | None:
    """A sentence if a library was built on other power traces or fits than the given ones; None if it was not.

    A library that does not say what it was built on passes.
    """
    for recipe in library.recipes.values():
        models = located_experiment(recipe, system).models
        if recipe.data is not None and assets_digest(models, specs_dir) != recipe.data.models:
            return "power traces or fits are not those that the library was built on; is --specs-dir right?"
    return None


def _named(seeds: Sequence[int]) -> str:
    names = ", ".join(str(seed) for seed in seeds[:_MOST_NAMED])
    rest = f" and {len(seeds) - _MOST_NAMED} more" if len(seeds) > _MOST_NAMED else ""
    return f"seed {names}" if len(seeds) == 1 else f"{len(seeds)} seeds ({names}{rest})"


@dataclass(frozen=True, slots=True)
class EvaluationOptions:
    """Settings of an evaluation.

    Attributes:
        policies: Directories of trained policies, or policies themselves, also of other trainers.
        baselines: Named policies to compare with, among those of `simulation.policies`.
        records: How many records, spread over the library; None for all.
        specs_dir: Spec cache to replay on; None means the shipped one.
        system: Experiment's TOML file, for a library on a feeder of the user's own.
        allow_shared_seeds: Go on where a policy was trained on records of this library, with a warning.
        engine: What rollouts run on, but for named policies that only the reference engine has.
        teams: Directories of policies that act in one rollout, each at sites of its own.
        controllers: Controllers of one's own, see `simulation.controller`: functions of `Now`, objects that are
            called like one, or "package.module:name". With several jobs, workers import them.
    """

    policies: tuple[Path | AnyPolicy, ...] = ()
    baselines: tuple[str, ...] = ("none", "ofo", "rule-based")
    records: int | None = None
    specs_dir: Path | None = None
    system: str | None = None
    allow_shared_seeds: bool = False
    engine: Engine = Engine()
    run: RunOptions = RunOptions()
    teams: tuple[tuple[Path, ...], ...] = ()
    controllers: tuple[ControllerPolicy, ...] = ()

    def __post_init__(self) -> None:
        convert_fields(self, policies=tuple_of(as_policy_source), teams=tuple_of(tuple_of(as_path)))
        convert_fields(self, baselines=tuple_of(as_text))
        convert_fields(self, records=optional(as_whole_number), specs_dir=optional(as_path), system=optional(as_system))
        convert_fields(self, controllers=tuple_of(as_controller))
        convert_fields(self, allow_shared_seeds=as_flag, engine=as_engine, run=built_as(RunOptions))
        for name in self.baselines:
            if name not in POLICIES:
                raise UnknownNameError(f"baseline {name!r} is not known; expected among {', '.join(POLICIES)}")
        if self.records is not None:
            require_count("records", self.records, 1)
        if not (self.baselines or self.policies or self.teams or self.controllers):
            raise InvalidSettingError("nothing to evaluate; give baselines, policies, or both")


Control = str | AnyPolicy | PolicyTeam | ControllerPolicy

Task = tuple[int, int]
"""Index of a record, and position of a control."""


_DEFAULTS = EvaluationOptions()


def evaluate(
    path: AnyLibrary, options: EvaluationOptions = _DEFAULTS, show: Callable[[int, int], None] | None = None
) -> Comparison:
    """Replay whole hours in parallel workers; equal results for any number of them.

    Args:
        path: Of the library, or the opened one.
        show: Called with (rollouts done, in all).

    Raises:
        SharedSeedsError: A policy was trained on records of this library.
        PolicyError: A policy cannot be read, or is one for another feeder.
        InvalidSettingError: Two policies have one name, or options of another type.
    """
    prepared = prepare_rollouts(path, options, figures_of)
    figures = {}
    for outcome in run_tasks(prepared.play, prepared.tasks, options.run):
        figures[outcome.task] = _scenario_figures(outcome, prepared.library, prepared.names)
        if show is not None:
            show(len(figures), len(prepared.tasks))
    rows = tuple(figures[task] for task in sorted(figures))
    return Comparison(prepared.names, rows, prepared.warnings, _ofo_notes(prepared.library, options))


@dataclass(frozen=True, slots=True)
class PreparedRollouts:
    """Whole hours to be played.

    Attributes:
        names: Of the controls.
        tasks: Index of a record and position of a control, record by record.
        play: Plays one of them, in whichever process.
        warnings: What should be known before figures are believed.
    """

    library: ScenarioLibrary
    names: tuple[str, ...]
    tasks: tuple[Task, ...]
    play: "PlayControls"
    warnings: tuple[str, ...]


def prepare_rollouts(
    path: AnyLibrary, options: EvaluationOptions, made: Callable[[Rollout, Experiment, Assets], Any]
) -> PreparedRollouts:
    """Load the controls and check them against a library; errors as for `evaluate`.

    Args:
        made: What of each rollout is kept; a function of a module, as workers import it.
    """
    instance_of(EvaluationOptions)("options", options)
    library = opened(path)
    own = [load_policy(source) for source in options.policies]
    teams = [PolicyTeam(tuple(TrainedPolicy.load(folder) for folder in team)) for team in options.teams]
    policies = [*own, *chain.from_iterable(team.policies for team in teams)]
    _require_feeder(library, policies)
    wrong_data = other_data(library, options.specs_dir, options.system)
    warnings = [*held_out_warnings(library, policies, options.allow_shared_seeds), *filter(None, [wrong_data])]
    controls: list[Control] = [
        *options.baselines,
        *options.controllers,
        *own,
        *teams,
    ]
    names = _control_names(controls)
    options, notices = _with_engine(library, options)
    warnings += notices
    records = spread_records(library, options.records)
    tasks = ((record.index, position) for record in records for position in range(len(controls)))
    experiments = {name: located_experiment(recipe, options.system) for name, recipe in library.recipes.items()}
    if options.run.cluster is not None:
        require_usable(options.run.cluster, distributions())
    play = PlayControls(library, tuple(controls), RolloutFiles(experiments, options.specs_dir), options.engine, made)
    return PreparedRollouts(library, names, tuple(tasks), play, tuple(warnings))


def _with_engine(library: ScenarioLibrary, options: EvaluationOptions) -> tuple[EvaluationOptions, list[str]]:
    """Make an engine ready before workers start; the options with one that models the feeder, and notices."""
    if options.engine.name == REFERENCE:
        return options, []
    for recipe in library.recipes.values():
        experiment = located_experiment(recipe, options.system)
        what = prepare(experiment, load_assets(experiment, options.specs_dir), options.engine)
        if what is not None:
            notice = f"the compiled engine does not model {what}; the reference engine was used"
            return replace(options, engine=Engine(REFERENCE)), [notice]
    return options, []


def _ofo_notes(library: ScenarioLibrary, options: EvaluationOptions) -> tuple[str, ...]:
    """How OFO is tuned here, beside how it was when the library was screened."""
    if "ofo" not in options.baselines:
        return ()
    experiments = [located_experiment(recipe, options.system) for recipe in library.recipes.values()]
    texts = (
        f"ofo: as the experiment has it, {tuning_text(experiment.ofo)}; screening had "
        f"{tuning_text(as_screened(experiment).ofo)}"
        for experiment in experiments
    )
    return tuple(dict.fromkeys(texts))


def _control_names(controls: Sequence[Control]) -> tuple[str, ...]:
    """What tables call the controls, each name once."""
    names = tuple(control if isinstance(control, str) else control.name for control in controls)
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidSettingError(
            f"two controls are called {twice!r}; a policy is called like its directory: rename one"
        )
    return names


def _require_feeder(library: ScenarioLibrary, policies: Sequence[AnyPolicy]) -> None:
    feeders = sorted({recipe.experiment.name for recipe in library.recipes.values()})
    for policy in policies:
        if feeders != [policy.card.feeder]:
            raise PolicyError(
                f"policy {policy.name} was trained on feeder {policy.card.feeder}; {library.path} is a library on "
                f"{few(feeders)}"
            )
        for recipe in library.recipes.values():
            _require_batch_sizes(policy, recipe.experiment)


def _require_batch_sizes(policy: AnyPolicy, experiment: Experiment) -> None:
    """A policy moves along the lists of batch sizes that it was trained with; along others it would do something else.

    Raises:
        PolicyError: The library's experiment has another list for one of its models, or not that model.
    """
    here = {spec.label: spec.feasible_batch_sizes for spec in experiment.models}
    for label, sizes in policy.card.observation_config.feasible_batch_sizes.items():
        if here.get(label) != tuple(sizes):
            raise PolicyError(
                f"policy {policy.name} sets {label} to batch sizes {shown(tuple(sizes))}; the library has "
                f"{here.get(label, 'no such model')}"
            )


@dataclass(frozen=True, slots=True)
class PlayControls:
    """Record and control in, what `made` keeps out; with the files of library and experiments also elsewhere."""

    library: ScenarioLibrary | None
    controls: tuple[Control, ...]
    files: RolloutFiles
    engine: Engine
    made: Callable[[Rollout, Experiment, Assets], Any]

    def __call__(self, task: Task) -> Any:
        assert self.library is not None
        record = self.library[task[0]]
        experiment = self.files.experiments["" if record.digests is None else record.digests.recipe]
        assets = load_assets(experiment, self.files.specs_dir)
        rollout = _rollout(self.library.materialize(record), experiment, assets, self.controls[task[1]], self.engine)
        return self.made(rollout, experiment, assets)

    def packed(self) -> "tuple[PlayControls, tuple[SharedFile, ...]]":
        assert self.library is not None
        moved, files = self.files.packed()
        return replace(self, library=None, files=moved), (*files, *library_files(self.library))

    def distributions(self) -> tuple[str, ...]:
        return distributions()

    def at(self, folder: Path) -> "PlayControls":
        return replace(self, library=library_at(folder), files=self.files.at(folder))

    def prepare(self) -> None:
        self.files.prepare([self.engine])


def _rollout(scenario: Scenario, experiment: Experiment, assets: Assets, control: Control, engine: Engine) -> Rollout:
    if engine.name == REFERENCE:
        return run_reference(scenario, experiment, assets, control)
    if isinstance(control, str | ControllerPolicy):
        return simulator(scenario, experiment, assets, engine).run(control).rollout
    return run_trained(scenario, experiment, assets, control, engine)


def _scenario_figures(
    outcome: TaskOutcome[Task, Figures], library: ScenarioLibrary, names: tuple[str, ...]
) -> ScenarioFigures:
    record: ScenarioRecord = library[outcome.task[0]]
    failure = None if outcome.failure is None else outcome.failure.message
    return ScenarioFigures(
        record.index,
        record.seed,
        record.kind,
        names[outcome.task[1]],
        outcome.result,
        failure,
        library.recipe_of(record).experiment.name,
    )
