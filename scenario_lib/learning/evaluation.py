"""Several trained policies in one rollout, each at sites of its own.

A rollout of trained policies on the compiled engine.

The policies are the openg2g controllers that they are on the reference engine; only what they observe and set is
simulated in machine code. A whole hour takes about a second, most of it the policies'.

What makes figures of a library doubtful: a policy that was trained on it, or other data than it was built on.

Replay a held-out library under no control, a rule, OFO and trained policies, and compare.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from openg2g.controller.base import Controller

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
from scenario_lib.env.simulator import Simulator, as_simulator, make_sim_fn
from scenario_lib.errors import InvalidSettingError, PolicyError, SharedSeedsError, UnknownNameError
from scenario_lib.execution.task_bundle import SharedFile
from scenario_lib.execution.tasks import RunOptions, TaskOutcome, require_usable, run_tasks
from scenario_lib.feeders.experiment import DURATION_S, Experiment
from scenario_lib.learning.any_trainer import AnyPolicy, as_policy_source, load_policy
from scenario_lib.learning.comparison import Comparison, Figures, ScenarioFigures, figures_of
from scenario_lib.learning.environments import record_identity
from scenario_lib.learning.policy import TrainedPolicy
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


@dataclass(frozen=True)
class PolicyTeam:
    """Policies that act side by side; a rollout takes a team as it takes one policy.

    Each observes what it was trained to observe, and was trained while the others' batch sizes stood still.

    Raises:
        PolicyError: A site that two of them set, or policies for several feeders.
    """

    policies: tuple[TrainedPolicy, ...]

    def __post_init__(self) -> None:
        feeders = sorted({policy.card.feeder for policy in self.policies})
        if len(feeders) != 1:
            raise PolicyError(f"policies of a team are for {', '.join(feeders) or 'nothing'}; expected one feeder")
        owner: dict[str, str] = {}
        for policy in self.policies:
            for site in policy.card.sites:
                if site in owner:
                    raise PolicyError(
                        f"policies {owner[site]} and {policy.name} both set batch sizes at site {site}; expected "
                        f"sites of its own for each policy of a team (train with --site)"
                    )
                owner[site] = policy.name

    @property
    def name(self) -> str:
        """Its name in tables."""
        return "+".join(policy.name for policy in self.policies)

    def controllers(self, datacenters: Mapping[str, Any], grid: Any) -> list[Controller]:
        """One controller per policy.

        Raises:
            PolicyError: The rollout lacks a site of theirs.
        """
        return [controller for policy in self.policies for controller in policy.controllers(datacenters, grid)]


_TICK_S = Fraction(1)


def run_trained(
    scenario: Scenario,
    experiment: Experiment,
    assets: Assets,
    control: AnyPolicy | PolicyTeam,
    engine: Engine,
    n_steps: int = DURATION_S,
) -> Rollout:
    """Simulate a scenario under trained policies for `n_steps` seconds.

    Args:
        engine: A compiled one.

    Raises:
        NotModelledError: The compiled engine does not model the feeder.
        PowerFlowError: The power flow did not converge; the error has the second.
        PolicyError: The feeder is not the one that the policies were trained on.
    """
    stepper = as_simulator(make_sim_fn(experiment, assets, n_steps, engine.label)(scenario), n_steps)
    stepper.start()
    controllers = control.controllers(stepper.sites, stepper)
    for controller in controllers:
        controller.reset()
        controller.start()
    seconds = []
    for _ in range(n_steps):
        stepper.advance(_TICK_S)
        seconds.append(_second(stepper))
        for controller in controllers:
            for command in controller.step(None, None):
                stepper.dispatch(_site_of(command.target, stepper.sites), command.batch_size_by_model)
    return Rollout(control.name, *_names(stepper), *map(np.array, zip(*seconds, strict=True)))


def _names(stepper: Simulator) -> tuple[tuple[tuple[str, int], ...], tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Bus-phases, sites, and (site, label) of the models; see `Rollout`."""
    labels = tuple((name, label) for name, site in stepper.sites.items() for label in site.state.batch_size_by_model)
    return tuple(stepper.v_index), tuple(stepper.sites), labels


def _second(stepper: Simulator) -> tuple[Any, ...]:
    """Voltages, power, batch sizes, replicas and latency of the last second, in `Rollout`'s order."""
    states = [site.state for site in stepper.sites.values()]
    return (
        stepper.voltages_vector(),
        [(state.power_w.a, state.power_w.b, state.power_w.c) for state in states],
        [size for state in states for size in state.batch_size_by_model.values()],
        [count for state in states for count in state.active_replicas_by_model.values()],
        [itl_s for state in states for itl_s in state.observed_itl_s_by_model.values()],
    )


def _site_of(target: Any, sites: Mapping[str, Any]) -> str:
    return next(name for name, site in sites.items() if site is target)


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
    tasks = [(record.index, position) for record in records for position in range(len(controls))]
    experiments = {name: located_experiment(recipe, options.system) for name, recipe in library.recipes.items()}
    if options.run.cluster is not None:
        require_usable(options.run.cluster, distributions())
    replay = _Play(library, tuple(controls), RolloutFiles(experiments, options.specs_dir), options.engine)
    figures = {}
    for outcome in run_tasks(replay, tasks, options.run):
        figures[outcome.task] = _scenario_figures(outcome, library, names)
        if show is not None:
            show(len(figures), len(tasks))
    rows = tuple(figures[task] for task in sorted(figures))
    return Comparison(names, rows, tuple(warnings), _ofo_notes(library, options))


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
class _Play:
    """Record and control in, figures out; with the files of the library and of its experiments also elsewhere."""

    library: ScenarioLibrary | None
    controls: tuple[Control, ...]
    files: RolloutFiles
    engine: Engine

    def __call__(self, task: Task) -> Figures:
        assert self.library is not None
        record = self.library[task[0]]
        experiment = self.files.experiments["" if record.digests is None else record.digests.recipe]
        assets = load_assets(experiment, self.files.specs_dir)
        rollout = _rollout(self.library.materialize(record), experiment, assets, self.controls[task[1]], self.engine)
        return figures_of(rollout, experiment, assets)

    def packed(self) -> "tuple[_Play, tuple[SharedFile, ...]]":
        assert self.library is not None
        moved, files = self.files.packed()
        return replace(self, library=None, files=moved), (*files, *library_files(self.library))

    def distributions(self) -> tuple[str, ...]:
        return distributions()

    def at(self, folder: Path) -> "_Play":
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
