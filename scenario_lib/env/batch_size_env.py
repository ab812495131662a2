"""Gymnasium environments in which an agent picks LLM batch sizes to keep a feeder's voltages in range."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from scenario_lib.env.game_env import GameEnv
from scenario_lib.env.observation import ObservationConfig
from scenario_lib.env.picking import Library
from scenario_lib.env.reward import RewardConfig
from scenario_lib.env.settings import EnvSettings
from scenario_lib.env.simulation import MakeSim
from scenario_lib.errors import InvalidSettingError, UnknownNameError
from scenario_lib.feeders.experiment import DURATION_S

_DEFAULT_SITE = "_default"


class BatchSizeEnv(GameEnv):
    """One site's batch sizes; the other sites keep theirs.

    Args:
        make_sim_fn: Makes a fresh simulation, see `scenario_lib.env.simulation.make_sim_fn`.
        obs_config: What is observed, of which models.
        agent_site_id: The agent's site; "_default" is the first.
        reward_config: Weights of the reward.
        action_mode: "delta" or "coupled".
        logistic_models: openg2g's fits, for the throughput term; None counts log2 of the batch.
        dt_ctrl: Control interval (s), a whole multiple of the simulation's tick.
        total_duration_s: Length of an episode without a library or truncation.
        scenario_library: Records are sampled from it at reset.
        ofo_baseline: Pay for doing better than OFO in the same second.
        truncate_episode: Play a record's control window only.
        on_divergence: "truncate" ends the episode when the power flow diverges, "raise" raises.
        worker: (i, k) for the i-th of k environments that train together: their scenario sequences differ and are
            reproducible from one base seed, given to the reset of each.
        coverage: "random", or "disjoint": the k workers see each scenario once before any twice.
        render_mode: "rgb_array" for a picture of the episode so far from `render`.
    """

    def __init__(  # noqa: PLR0913 - the signature is a contract
        self,
        make_sim_fn: MakeSim,
        obs_config: ObservationConfig,
        agent_site_id: str = _DEFAULT_SITE,
        reward_config: RewardConfig | None = None,
        action_mode: str = "delta",
        logistic_models: Any = None,
        dt_ctrl: Fraction = Fraction(1),
        total_duration_s: int = DURATION_S,
        scenario_library: Library | None = None,
        ofo_baseline: bool = False,
        truncate_episode: bool = False,
        on_divergence: str = "truncate",
        worker: tuple[int, int] | None = None,
        coverage: str = "random",
        render_mode: str | None = None,
    ) -> None:
        settings = EnvSettings(
            reward_config or RewardConfig(),
            action_mode,
            logistic_models,
            Fraction(dt_ctrl),
            int(total_duration_s),
            scenario_library,
            ofo_baseline,
            truncate_episode,
            on_divergence,
            worker,
            coverage,
            render_mode,
        )
        super().__init__(make_sim_fn, obs_config, settings)
        self._agent_site = agent_site_id

    def _choose_sites(self, sites: Sequence[str]) -> list[str]:
        return choose_agent_site(self._agent_site, sites)


class SharedBatchSizeEnv(GameEnv):
    """One policy for all sites: all models are observed and set, with one command per site.

    Args:
        site_model_mapping: Site to the labels of its models; the other arguments are those of `BatchSizeEnv`.
    """

    def __init__(  # noqa: PLR0913 - the signature is a contract
        self,
        make_sim_fn: MakeSim,
        obs_config: ObservationConfig,
        site_model_mapping: Mapping[str, tuple[str, ...]],
        reward_config: RewardConfig | None = None,
        action_mode: str = "delta",
        logistic_models: Any = None,
        dt_ctrl: Fraction = Fraction(1),
        total_duration_s: int = DURATION_S,
        scenario_library: Library | None = None,
        ofo_baseline: bool = False,
        truncate_episode: bool = False,
        on_divergence: str = "truncate",
        worker: tuple[int, int] | None = None,
        coverage: str = "random",
        render_mode: str | None = None,
    ) -> None:
        mapped = [label for labels in site_model_mapping.values() for label in labels]
        if len(set(mapped)) != len(mapped):
            raise InvalidSettingError(
                f"site_model_mapping: a label stands at two sites ({mapped}); states merge by label"
            )
        if set(mapped) != set(obs_config.model_labels):
            odd = ", ".join(sorted(set(mapped) ^ set(obs_config.model_labels)))
            raise InvalidSettingError(f"site_model_mapping and model_labels do not name the same models: {odd}")
        settings = EnvSettings(
            reward_config or RewardConfig(),
            action_mode,
            logistic_models,
            Fraction(dt_ctrl),
            int(total_duration_s),
            scenario_library,
            ofo_baseline,
            truncate_episode,
            on_divergence,
            worker,
            coverage,
            render_mode,
        )
        super().__init__(make_sim_fn, obs_config, settings)
        self._mapping = {site: tuple(labels) for site, labels in site_model_mapping.items()}

    def _choose_sites(self, sites: Sequence[str]) -> list[str]:
        return choose_mapped_sites(self._mapping, sites)


def choose_agent_site(agent_site_id: str, sites: Sequence[str]) -> list[str]:
    """The agent's site; "_default" is the first.

    Raises:
        UnknownNameError: No such site.
    """
    if agent_site_id == _DEFAULT_SITE:
        return [sites[0]]
    if agent_site_id not in sites:
        raise UnknownNameError(f"agent_site_id is {agent_site_id!r}; expected one of {', '.join(sites)}")
    return [agent_site_id]


def choose_mapped_sites(mapping: Mapping[str, Sequence[str]], sites: Sequence[str]) -> list[str]:
    """The sites of a mapping from site to models.

    Raises:
        UnknownNameError: One of them does not exist.
    """
    unknown = [site for site in mapping if site not in sites]
    if unknown:
        raise UnknownNameError(f"site_model_mapping names {unknown}; expected sites among {', '.join(sites)}")
    return list(mapping)
