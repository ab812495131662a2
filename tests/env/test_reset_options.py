"""What reset is asked for: odd seeds and options are refused before anything happens, by every kind of environment."""

import numpy as np
import pytest
from env_samples import make, make_vec

from scenario_lib.errors import InvalidSettingError, UnknownNameError
from scenario_lib.simulation.engines import ENGINES

SHORT = {"truncate_episode": False, "total_duration_s": 6}
STILL = np.ones(5, int)


@pytest.fixture(scope="module", params=[*ENGINES, "in lockstep"])
def env(request):
    return make_vec(2, **SHORT) if request.param == "in lockstep" else make(engine=request.param, **SHORT)


@pytest.mark.parametrize(
    ("reset", "message"),
    [
        ({"options": {"scenaro": 7}}, "options has no 'scenaro'; did you mean 'scenario'"),
        ({"options": {"record": 7}}, "options has no 'record'; expected one of scenario"),
        ({"options": {7: 7}}, "options has no 7"),
        ({"options": {"scenario": 7, "reset_maks": None}}, "options has no 'reset_maks'"),
        ({"options": {"seed": 7}}, r"options\['seed'\] is 7; expected none; a seed is an argument of its own"),
        ({"options": [7]}, r"options is \[7\]; expected a mapping"),
        ({"options": 7}, "options is 7; expected a mapping"),
        ({"options": {"scenario": 7.5}}, r"options\['scenario'\] is 7.5; expected a seed"),
        ({"options": {"scenario": "7"}}, r"options\['scenario'\] is '7'; expected a seed"),
        ({"options": {"scenario": True}}, r"options\['scenario'\] is True; expected a seed"),
        ({"options": {"scenario": -7}}, r"options\['scenario'\] is -7; expected a seed"),
        ({"options": {"scenario": 99}}, "no record of seed 99"),
        ({"seed": 1.5}, "seed is 1.5; expected a seed"),
        ({"seed": "1"}, "seed is '1'; expected a seed"),
        ({"seed": True}, "seed is True; expected a seed"),
        ({"seed": -1}, "seed is -1; expected a seed"),
        ({"seed": np.float64(1.0)}, "expected a seed"),
    ],
)
def test_odd_resets_are_refused_and_the_episode_goes_on(env, reset, message):
    before = env.reset(seed=3)[1]["scenario"]
    with pytest.raises((InvalidSettingError, UnknownNameError), match=message):
        env.reset(**reset)
    actions = np.ones(env.action_space.shape, int)
    assert np.array_equal(env.step(actions)[4]["scenario"], before)


@pytest.mark.parametrize(
    ("reset", "message"),
    [
        ({"options": {"scenario": [7.5, "7"]}}, r"options\['scenario'\]\[0\] is 7.5; expected a seed"),
        ({"options": {"scenario": [7, "7"]}}, r"options\['scenario'\]\[1\] is '7'; expected a seed"),
        ({"options": {"scenario": np.array([7.0, 2007.0])}}, r"options\['scenario'\]\[0\] is .*7.0.*; expected a seed"),
        ({"options": {"scenario": [7, 99]}}, "no record of seed 99"),
        ({"options": {"reset_mask": [True, False]}}, "expected a numpy array of 2 booleans"),
        ({"seed": [1, 1.5]}, r"seed\[1\] is 1.5; expected a seed"),
        ({"seed": [1, 2, 3]}, "seed has 3 values; expected one, or 2"),
        ({"seed": []}, "seed has 0 values; expected one, or 2"),
    ],
)
def test_odd_lists_are_refused_and_the_episodes_go_on(reset, message):
    env = make_vec(2, **SHORT)
    before = env.reset(seed=3)[1]["scenario"]
    with pytest.raises((InvalidSettingError, UnknownNameError), match=message):
        env.reset(**reset)
    assert env.step(np.ones((2, 5), int))[4]["scenario"].tolist() == before.tolist()


@pytest.mark.parametrize("seven", [7, np.int64(7), np.uint8(7), np.array(7)])
def test_whole_numbers_of_any_width_are_seeds(seven):
    single, vector = make(**SHORT), make_vec(2, **SHORT)
    assert single.reset(seed=seven, options={"scenario": seven})[1]["scenario"] == 7
    assert vector.reset(seed=seven, options={"scenario": seven})[1]["scenario"].tolist() == [7, 7]
    assert single.reset(seed=seven)[0].tobytes() == single.reset(seed=7)[0].tobytes()
    assert vector.reset(seed=seven)[0].tobytes() == vector.reset(seed=[7, 7])[0].tobytes()


def keys_of(info):
    return {name: keys_of(value) if isinstance(value, dict) else type(value) for name, value in info.items()}


@pytest.mark.parametrize("engine", ENGINES)
def test_infos_of_reset_and_step_have_equal_keys(engine):
    env = make(engine=engine, **SHORT)
    _, begun = env.reset(seed=0)
    *_, info = env.step(STILL)
    assert keys_of(begun) == keys_of(info)
    assert set(begun["reward_components"].values()) == {0.0}
    # Batch sizes that stay leave voltages about what they were.
    assert begun["voltage_stats"]["max_under"] == pytest.approx(info["voltage_stats"]["max_under"], abs=0.02)
    env.close()


@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
def test_infos_in_lockstep_have_equal_keys(mode):
    env = make_vec(2, autoreset_mode=mode, **SHORT)
    _, begun = env.reset(seed=0)
    *_, info = env.step(np.ones((2, 5), int))
    assert keys_of(begun) == keys_of(info)


@pytest.mark.parametrize("mode", ["sync", "vector_entry_point"])
def test_episodes_end_after_the_most_steps(mode):
    env = make_vec(2, mode=mode, max_episode_steps=3, **SHORT)
    env.reset(seed=0)
    ends = [env.step(np.ones((2, 5), int))[3].tolist() for _ in range(8)]
    assert [all(end) for end in ends] == [False, False, True, False, False, False, True, False]


@pytest.mark.parametrize("most", [0, -1, 1.5, "50", True])
def test_odd_numbers_of_most_steps_are_refused(most):
    with pytest.raises(InvalidSettingError, match="max_episode_steps is"):
        make_vec(2, max_episode_steps=most, **SHORT)
