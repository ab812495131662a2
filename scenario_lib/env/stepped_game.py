"""An episode played in Python over a `Stepper`: openg2g's objects, or whatever else can be stepped."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scenario_lib.env.action import decode_action
from scenario_lib.env.episode import Episode
from scenario_lib.env.game import DrawScenario, GameSettings, Observation, Turn
from scenario_lib.env.observation import build_observation, compute_zone_mask
from scenario_lib.env.reward import NEVER_CHANGED, clip_reward, compute_reward
from scenario_lib.env.simulation import CoordinatedStepper, MakeSim, Stepper, as_stepper
from scenario_lib.errors import EnvironmentUseError, NotCopyableError, PowerFlowError, UnknownNameError


class SteppedGame:
    """See `Game`."""

    def __init__(self, make_sim: MakeSim, settings: GameSettings) -> None:
        self._make_sim, self._settings, self._config = make_sim, settings, settings.obs_config
        self._sim: Stepper | None = None

    @property
    def v_index(self) -> Sequence[tuple[str, int]]:
        return self._running().v_index

    def begin(self, episode: Episode, draw: DrawScenario) -> tuple[Observation, dict[str, int]]:
        self.close()
        made = self._make_sim(scenario_override=draw())
        sim = self._sim = as_stepper(made, self._settings.env.total_duration_s)
        self._sites = self._settings.choose_sites(list(sim.sites))
        sim.start()
        for _ in range(episode.start_s):
            sim.advance(Fraction(1))
        sim.advance(episode.dt_ctrl)
        self._prev_batch = self._running_batches(sim)
        self._since_change = dict.fromkeys(self._config.model_labels, NEVER_CHANGED)
        self._prepare_masks(sim)
        self._observation = self._observe(sim)
        return self._observation, dict(self._prev_batch)

    def play(self, action: object, episode: Episode) -> Turn:
        sim = self._running()
        labels, feasible = self._config.model_labels, self._config.feasible_batch_sizes
        batches = decode_action(action, self._settings.env.action_mode, labels, feasible, self._prev_batch, None)
        for site in self._sites:
            here = sim.sites[site].state.batch_size_by_model
            sim.dispatch(site, {label: size for label, size in batches.items() if label in here})
        episode.step += 1
        try:
            sim.advance(episode.dt_ctrl)
        except PowerFlowError as error:
            return Turn(self._observation, 0.0, dict(self._prev_batch), {}, {}, error)
        reward, components, statistics = self._reward(sim, batches, episode)
        self._observation = self._observe(sim)
        for label, size in batches.items():
            self._since_change[label] = 0 if size != self._prev_batch[label] else self._since_change[label] + 1
        self._prev_batch = batches
        return Turn(self._observation, reward, dict(batches), components, statistics, None)

    def __reduce__(self) -> str | tuple[Any, ...]:
        if isinstance(self._sim, CoordinatedStepper):
            raise NotCopyableError(
                "an environment on the reference engine cannot be copied or pickled once its episode has begun, as "
                "OpenDSS keeps the state of its one circuit to itself; copy one with engine='compiled', or reset "
                "another with the same seed and take the same actions"
            )
        return super().__reduce__()

    def voltages_vector(self) -> NDArray[np.float64]:
        return self._running().voltages_vector()

    def close(self) -> None:
        if self._sim is not None:
            self._sim.stop()
        self._sim = None

    def _running(self) -> Stepper:
        if self._sim is None:
            raise EnvironmentUseError("no episode has begun; call reset first")
        return self._sim

    def _prepare_masks(self, sim: Stepper) -> None:
        config = self._config
        self._zone_mask = None if config.zone_buses is None else compute_zone_mask(sim.v_index, config.zone_buses)
        zones = config.zone_summary or {}
        self._zone_masks = [compute_zone_mask(sim.v_index, buses) for buses in zones.values()] or None

    def _datacenters(self, sim: Stepper) -> list[Any]:
        return [sim.sites[site] for site in self._sites]

    def _running_batches(self, sim: Stepper) -> dict[str, int]:
        running: dict[str, int] = {}
        for datacenter in self._datacenters(sim):
            running.update(datacenter.state.batch_size_by_model)
        for label in self._config.model_labels:
            if label not in running:
                raise UnknownNameError(
                    f"model_labels: {label!r} is not at {', '.join(self._sites)}; expected some of {', '.join(running)}"
                )
        return {label: int(running[label]) for label in self._config.model_labels}

    def _observe(self, sim: Stepper) -> Observation:
        sources = sim, self._datacenters(sim)
        return build_observation(*sources, self._config, self._prev_batch, self._zone_mask, self._zone_masks)

    def _reward(
        self, sim: Stepper, batches: Mapping[str, int], episode: Episode
    ) -> tuple[float, dict[str, float], dict[str, float]]:
        total, components, statistics = compute_reward(
            sim,
            self._datacenters(sim),
            self._config,
            replace(self._settings.env.reward_config, reward_clip=0.0),
            self._prev_batch,
            batches,
            self._settings.env.logistic_models,
            self._since_change,
        )
        bonus = 0.0 if self._settings.ofo is None else self._settings.ofo.bonus(episode)
        components["voltage"] += bonus
        # Reported beside the components, already inside "voltage": never to be summed again.
        components["ofo_baseline"] = bonus
        return clip_reward(total + bonus, self._settings.env.reward_config), components, statistics
