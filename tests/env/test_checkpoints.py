"""A truncated episode begins where the long way leads, bit for bit; compiled episodes are kept within bounds."""

import time
from fractions import Fraction

import numpy as np
import pytest
from env_samples import DATA, LIBRARY, make

from scenario_lib.env.compiled_backend import EpisodeSource
from scenario_lib.env.episode import episode_of
from scenario_lib.env.simulator import make_sim_fn
from scenario_lib.errors import InvalidSettingError
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.simulation.assets import load_assets
from scenario_lib.simulation.compiled.episode import EPISODES, EpisodeCache, compile_episode

STILL = np.ones(5, int)


@pytest.fixture
def source():
    experiment = load_experiment("ieee13")
    return make_sim_fn(experiment, load_assets(experiment, DATA / "specs"))


@pytest.mark.parametrize("seed", [7, 2007, 6007])
def test_a_truncated_episode_begins_as_the_long_way_would(seed):
    short, whole = make(truncate_episode=True), make(truncate_episode=False)
    options = {"scenario": seed}
    observation, info = short.reset(options=options)
    long_way, _ = whole.reset(options=options)
    for _ in range(int(info["time_s"])):
        long_way, *_ = whole.step(STILL)
    assert observation.tobytes() == long_way.tobytes()
    for action in np.random.default_rng(0).integers(0, 3, (200, 5)):
        left, right = short.step(action), whole.step(action)
        assert left[0].tobytes() == right[0].tobytes()
        assert left[1:4] == right[1:4]
        assert left[4] == right[4]


def test_a_window_keeps_its_seconds_only(source):
    record = ScenarioLibrary(LIBRARY).record_for(7)
    episode = episode_of(record, True, 3600, Fraction(1))
    scenario = ScenarioLibrary(LIBRARY).materialize(record)
    window = compile_episode(scenario, source.experiment, source.assets, (1735, 3326))
    whole = compile_episode(scenario, source.experiment, source.assets, (0, 3326))
    assert episode.start_s == 1735
    assert window.n_seconds == 3326 - 1735
    assert window.tables.model_power_w.tobytes() == whole.tables.model_power_w[1735:].tobytes()
    assert window.tables.itl_s.tobytes() == whole.tables.itl_s[1735:].tobytes()
    assert window.n_bytes < 0.6 * whole.n_bytes


def test_playing_leaves_a_compiled_episode_as_it_is():
    env = make()
    first = [env.reset(options={"scenario": 7})[0].tobytes()]
    first += [env.step(action)[0].tobytes() for action in np.random.default_rng(0).integers(0, 3, (50, 5))]
    second = [env.reset(options={"scenario": 7})[0].tobytes()]
    second += [env.step(action)[0].tobytes() for action in np.random.default_rng(0).integers(0, 3, (50, 5))]
    assert first == second


def test_a_scenario_compiled_before_is_neither_drawn_nor_compiled_again():
    env = make()
    env.reset(options={"scenario": 2007})
    library = env.unwrapped._library
    library_materialize, drawn = library.materialize, []
    library.materialize = lambda record: drawn.append(record.seed) or library_materialize(record)
    started = time.perf_counter()
    env.reset(options={"scenario": 2007})
    assert time.perf_counter() - started < 0.1
    assert drawn == []
    EPISODES.clear()
    env.reset(options={"scenario": 2007})
    assert drawn == [2007]


class Tables:
    """As much of an episode as the cache looks at."""

    def __init__(self, n_bytes):
        self.n_bytes = n_bytes


def test_the_cache_drops_what_was_used_longest_ago():
    cache, made = EpisodeCache(capacity_mb=3), []

    def get(key, n_bytes=1_000_000):
        return cache.get(key, lambda: made.append(key) or Tables(n_bytes))

    for key in "abc":
        get(key)
    get("a")
    get("d")
    assert made == list("abcd")
    get("a")
    get("c")
    assert made == list("abcd")
    get("b")
    assert made == list("abcdb")
    assert (len(cache), cache.n_bytes) == (3, 3_000_000)
    get("large", 4_000_000)
    assert (len(cache), cache.n_bytes) == (0, 0)
    get("e")
    cache.resize(0)
    assert (len(cache), cache.n_bytes) == (0, 0)
    with pytest.raises(InvalidSettingError, match="capacity_mb"):
        cache.resize(-1)


def test_an_empty_window_is_refused(source):
    assert isinstance(source, EpisodeSource)
    scenario = source.scenario_of(None)
    with pytest.raises(InvalidSettingError, match="the window is 5 to 5 s"):
        compile_episode(scenario, source.experiment, source.assets, (5, 5))
