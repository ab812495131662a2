"""The vector environment as Stable-Baselines3 sees it; importing this module needs the package.

environments = BatchSizeVecEnv(make_batch_size_vector_env(16, library, autoreset_mode="SameStep"), seed=0)
model = PPO("MlpPolicy", environments)
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv

from scenario_lib.env.sampling import SINGLE_OPTIONS, known_options
from scenario_lib.env.vector_env import BatchSizeVectorEnv
from scenario_lib.errors import InvalidSettingError


class BatchSizeVecEnv(VecEnv):  # type: ignore[misc]
    """Environments in lockstep as a `VecEnv`.

    An episode that ends is followed by the next at once; its last observation is `infos[i]["terminal_observation"]`,
    and `infos[i]["TimeLimit.truncated"]` says that time was up, so that returns are bootstrapped: episodes are
    windows of an endless task. Other infos are those of the single environment.

    Args:
        env: Made with `autoreset_mode="SameStep"`.
        seed: Base seed of the first reset. Streams of the environments are keyed by it, also if it comes from
            `seed(...)`, which Stable-Baselines3 calls; its own seed + i is not used. None leaves it to `seed(...)`.
    """

    def __init__(self, env: BatchSizeVectorEnv, seed: int | None = None) -> None:
        if env.metadata["autoreset_mode"] is not AutoresetMode.SAME_STEP:
            raise InvalidSettingError(
                f"autoreset_mode is {env.metadata['autoreset_mode'].value!r}; expected 'SameStep', as "
                f"Stable-Baselines3 resets environments in the step that ends their episode"
            )
        self.env, self._base_seed = env, seed
        self._actions: Any = None
        super().__init__(env.num_envs, env.single_observation_space, env.single_action_space)

    def reset(self) -> NDArray[np.float32]:
        """Begin all episodes anew, those named by `set_options({"scenario": seed})` once."""
        named = [known_options(options, SINGLE_OPTIONS).get("scenario") for options in self._options]
        observations, infos = self.env.reset(seed=self._base_seed, options={"scenario": named})
        self._base_seed = None
        self.reset_infos = _split(infos, self.num_envs)
        self._reset_options()
        return observations

    def step_async(self, actions: NDArray[Any]) -> None:
        """Take actions, to be played by `step_wait`."""
        self._actions = actions

    def step_wait(self) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        """Play the actions taken."""
        observations, rewards, terminated, truncated, infos = self.env.step(self._actions)
        dones = terminated | truncated
        listed = _split(infos, self.num_envs)
        if dones.any():
            ended = _split(infos["final_info"], self.num_envs)
            for i in np.flatnonzero(dones):
                self.reset_infos[i], listed[i] = listed[i], ended[i]
                listed[i]["terminal_observation"] = infos["final_obs"][i]
                listed[i]["TimeLimit.truncated"] = bool(truncated[i] and not terminated[i])
        return observations, rewards.astype(np.float32), dones, listed

    def seed(self, seed: int | None = None) -> list[int | None]:
        """Use a base seed at the next reset."""
        self._base_seed = seed
        return [seed] * self.num_envs

    def close(self) -> None:
        """Release the tables."""
        self.env.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """An attribute, the same for all environments."""
        return [getattr(self.env, attr_name)] * len(list(self._get_indices(indices)))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Refused: environments in lockstep have no attributes of their own."""
        raise InvalidSettingError(f"attribute {attr_name} cannot be set to {value!r} for environments {indices}")

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        """Refused: environments in lockstep have no methods of their own."""
        raise InvalidSettingError(f"method {method_name} cannot be called on environments {indices} ({args}, {kwargs})")

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Never: nothing is wrapped one by one."""
        del wrapper_class
        return [False] * len(list(self._get_indices(indices)))

    def get_images(self) -> Sequence[NDArray[np.uint8] | None]:
        """A picture of each episode so far; None without render_mode "rgb_array"."""
        return self.env.render() or [None] * self.num_envs


def _split(infos: dict[str, Any], n: int) -> list[dict[str, Any]]:
    """The infos of N environments one by one, out of the stacked ones; those of ended episodes stay out."""
    out: list[dict[str, Any]] = [{} for _ in range(n)]
    for name, value in infos.items():
        if name.startswith("_") or name in ("final_obs", "final_info"):
            continue
        values = _split(value, n) if isinstance(value, dict) else value.tolist()
        for info, has, one in zip(out, infos[f"_{name}"].tolist(), values, strict=True):
            if has:
                info[name] = one
    return out
