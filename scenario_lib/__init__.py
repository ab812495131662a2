"""scenario-lib: screened libraries of randomised scenarios for power grids with AI datacenters.

A feeder and settings are sampled into a scenario; a scenario is simulated into rollouts; rollouts are measured and
judged; accepted scenarios are published as a library. The public names below are loaded when they are first used, so
that importing the package is quick and opening a library loads no simulator.
"""

import logging
from typing import TYPE_CHECKING

from scenario_lib._lazy import lazy_names
from scenario_lib.env import register_envs

if TYPE_CHECKING:
    from scenario_lib.errors import ScenarioLibError as ScenarioLibError
    from scenario_lib.execution.options import Cluster as Cluster
    from scenario_lib.execution.options import RunOptions as RunOptions
    from scenario_lib.feeders.experiment import Experiment as Experiment
    from scenario_lib.feeders.experiment import VoltageLimits as VoltageLimits
    from scenario_lib.feeders.experiment_file import experiment_names as experiment_names
    from scenario_lib.feeders.experiment_file import load_experiment as load_experiment
    from scenario_lib.library.combine import merge_libraries as merge_libraries
    from scenario_lib.library.leaks import find_leaks as find_leaks
    from scenario_lib.library.library import ScenarioLibrary as ScenarioLibrary
    from scenario_lib.library.record import ScenarioRecord as ScenarioRecord
    from scenario_lib.library.split import Parts as Parts
    from scenario_lib.library.split import split_library as split_library
    from scenario_lib.metrics.voltage import measure_voltages as measure_voltages
    from scenario_lib.metrics.voltage import penalty_trace as penalty_trace
    from scenario_lib.plotting.feeder import plot_feeder as plot_feeder
    from scenario_lib.plotting.hour import plot_rollout as plot_rollout
    from scenario_lib.plotting.hour import plot_scenario as plot_scenario
    from scenario_lib.scenario.model import Scenario as Scenario
    from scenario_lib.scenario.randomize import randomize_scenario as randomize_scenario
    from scenario_lib.scenario.settings import RandomizationSettings as RandomizationSettings
    from scenario_lib.screening.build import build_library as build_library
    from scenario_lib.screening.candidate import MeasurePlan as MeasurePlan
    from scenario_lib.screening.criteria import ScreeningCriteria as ScreeningCriteria
    from scenario_lib.screening.request import BuildOptions as BuildOptions
    from scenario_lib.screening.request import CandidateRequest as CandidateRequest
    from scenario_lib.screening.request import Quota as Quota
    from scenario_lib.simulation.assets import load_assets as load_assets
    from scenario_lib.simulation.controller import Now as Now
    from scenario_lib.simulation.controller import load_controller as load_controller
    from scenario_lib.simulation.engines import Engine as Engine
    from scenario_lib.simulation.engines import run_rollout as run_rollout
    from scenario_lib.simulation.rollout import Rollout as Rollout
    from scenario_lib.validation.validate import ReplayOptions as ReplayOptions
    from scenario_lib.validation.validate import validate_library as validate_library

_HOME = {
    # what stands still
    "Experiment": "feeders.experiment",
    "experiment_names": "feeders.experiment_file",
    "load_experiment": "feeders.experiment_file",
    "VoltageLimits": "feeders.experiment",
    # from a seed to a scenario
    "RandomizationSettings": "scenario.settings",
    "Scenario": "scenario.model",
    "randomize_scenario": "scenario.randomize",
    # from a scenario to figures
    "Engine": "simulation.engines",
    "Rollout": "simulation.rollout",
    "load_assets": "simulation.assets",
    "run_rollout": "simulation.engines",
    "Now": "simulation.controller",
    "load_controller": "simulation.controller",
    "measure_voltages": "metrics.voltage",
    "penalty_trace": "metrics.voltage",
    # from candidates to a library
    "BuildOptions": "screening.request",
    "CandidateRequest": "screening.request",
    "Cluster": "execution.options",
    "MeasurePlan": "screening.candidate",
    "Quota": "screening.request",
    "RunOptions": "execution.options",
    "ScreeningCriteria": "screening.criteria",
    "build_library": "screening.build",
    "ReplayOptions": "validation.validate",
    "validate_library": "validation.validate",
    # from libraries to libraries
    "find_leaks": "library.leaks",
    "Parts": "library.split",
    "merge_libraries": "library.combine",
    "split_library": "library.split",
    # a library
    "ScenarioLibrary": "library.library",
    "ScenarioRecord": "library.record",
    "ScenarioLibError": "errors",
    # pictures (extra `plot`)
    "plot_feeder": "plotting.feeder",
    "plot_rollout": "plotting.hour",
    "plot_scenario": "plotting.hour",
}

__all__ = sorted(_HOME)

__getattr__, __dir__ = lazy_names(__name__, _HOME)


logging.getLogger(__name__).addHandler(logging.NullHandler())  # silent unless the program that uses it says otherwise
register_envs()
