"""Experiment files: what ships, what a user may write, and what is refused by naming file and field."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from scenario_lib.errors import DataFileError, InvalidSettingError, MissingDataError, UnknownNameError
from scenario_lib.feeders.experiment import Experiment, OFOTuning, TrainingJob, VoltageLimits
from scenario_lib.feeders.experiment_file import experiment_names, load_experiment
from scenario_lib.feeders.sites import (
    DatacenterPhysics,
    ModelDeployment,
    PowerSeries,
    PVSystem,
    Ramp,
    Site,
    TimeVaryingLoad,
)
from scenario_lib.models.specs import shipped_model

Edit = Callable[[str, str], Path]


def test_three_experiments_ship() -> None:
    assert set(experiment_names()) == {"ieee13", "ieee34", "ieee123"}


# (sites, PV buses, load buses, GPUs of the overlay base, ramps drawn by default, zones)
SHIPPED = {
    "ieee13": (("default",), ("675",), ("680",), 2400, True, 0),
    "ieee34": (("upstream", "downstream"), ("858", "852"), ("860", "844", "858"), None, False, 0),
    "ieee123": (("z1_sw", "z2_nw", "z3_se", "z4_ne"), ("18", "48", "57"), ("13", "86", "114"), None, True, 4),
}


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_experiment(name: str) -> None:
    experiment = load_experiment(name)
    sites, pv, loads, overlay_gpus, ramps, zones = SHIPPED[name]
    assert experiment.name == name
    assert Path(experiment.feeder.circuit).is_file()
    assert tuple(site.name for site in experiment.sites) == sites
    assert tuple(system.bus for system in experiment.pv_systems) == pv
    assert tuple(load.bus for load in experiment.loads) == loads
    assert (experiment.overlay and experiment.overlay.n_gpus) == overlay_gpus
    assert experiment.randomize_ramps_default is ramps
    assert len(experiment.feeder.zones) == zones
    assert experiment.limits == VoltageLimits(0.95, 1.05)
    assert experiment.datacenter == DatacenterPhysics(8, 0.95, (0.98, 1.02), 0.005, 600.0)
    assert load_experiment(Path(experiment.feeder.circuit).with_name("experiment.toml")) == experiment
    assert load_experiment(Path(name)) == experiment


def test_figures_of_ieee13() -> None:
    experiment = load_experiment("ieee13")
    (site,) = experiment.sites
    assert (site.bus, site.bus_kv, site.base_kw_per_phase, site.total_gpu_capacity) == ("671", 4.16, 500.0, 7200)
    assert [(model.label, model.replicas) for model in site.models] == [
        ("Llama-3.1-8B", 720),
        ("Llama-3.1-70B", 180),
        ("Llama-3.1-405B", 90),
        ("Qwen3-30B-A3B", 480),
        ("Qwen3-235B-A22B", 210),
    ]
    assert site.models[0].ramps == (Ramp(144, 2500.0, 3000.0),)
    assert experiment.feeder.initial_taps_pu == {"creg1a": 1.0875, "creg1b": 1.0375, "creg1c": 1.09375}
    assert experiment.overlay == TrainingJob(2400, 400.0, 1000.0, 2000.0)
    assert experiment.loads == (TimeVaryingLoad("680", 4.16, 300.0, 0.96),)


def test_the_village_is_read_as_written(village: Experiment, village_file: Path) -> None:
    assert village.feeder.circuit == str(village_file.with_name("village.dss"))
    assert village.feeder.zones == {"hall": ("mill", "harbour", "quay", "lane")}
    assert village.sites == (
        Site(
            "hall",
            "harbour",
            4.16,
            45.0,
            640,
            (ModelDeployment("Llama-3.1-8B", 240), ModelDeployment("Qwen3-30B-A3B", 120)),
        ),
    )
    series = PowerSeries((0, 600, 900, 1500, 2400, 3000, 3600), (30.0, 38.5, 21.25, 36.0, 12.5, 8.0, 2.0))
    assert village.pv_systems == (PVSystem("school", 4.16, 40.0, 0.98, series),)
    assert village.loads == (TimeVaryingLoad("lane", 4.16, 20.0, 0.9),)
    assert village.models == (shipped_model("Llama-3.1-8B").spec, shipped_model("Qwen3-30B-A3B").spec)
    assert village.ofo == OFOTuning(voltage_gradient_scale=1e6, sensitivity_perturbation_kw=20.0)
    assert village.randomize_ramps_default is True


def test_the_file_may_be_named_from_anywhere(
    village: Experiment, village_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as elsewhere:
        elsewhere.chdir(village_file.parents[1])
        assert load_experiment("village/experiment.toml") == village


def test_every_table_is_read(edited_village: Edit) -> None:
    tables = """
[limits]
v_min_pu = 0.9
v_max_pu = 1.1
[datacenter]
gpus_per_server = 4
power_factor = 0.9
amplitude_scale_range = [0.9, 1.1]
noise_fraction = 0.01
template_duration_s = 300
[build]
randomize_ramps = false
"""
    edited_village("sensitivity_perturbation_kw = 20.0", "sensitivity_perturbation_kw = 20.0\nv_max = 1.04")
    experiment = load_experiment(edited_village("[overlay]", f"{tables}[overlay]"))
    assert experiment.limits == VoltageLimits(0.9, 1.1)
    assert experiment.datacenter == DatacenterPhysics(4, 0.9, (0.9, 1.1), 0.01, 300.0)
    assert experiment.randomize_ramps_default is False
    assert experiment.ofo == OFOTuning(voltage_gradient_scale=1e6, sensitivity_perturbation_kw=20.0, v_max=1.04)
    assert experiment.overlay == TrainingJob(120, 400.0, 1000.0, 2000.0)


def test_the_least_file(edited_village: Edit) -> None:
    """Feeder and one site are enough; everything else has a default."""
    path = edited_village('name = "village"', 'name = "least"')
    path.write_text(
        """
        feeder = {name = "least", circuit = "village.dss"}
        [[sites]]
        name = "hall"
        bus = "harbour"
        bus_kv = 4.16
        base_kw_per_phase = 0
        total_gpu_capacity = 480
        models = [{label = "Llama-3.1-8B", replicas = 480}]
        """,
        encoding="utf-8",
    )
    experiment = load_experiment(path)
    assert (experiment.pv_systems, experiment.loads, experiment.overlay) == ((), (), None)
    assert (experiment.feeder.source_pu, experiment.feeder.initial_taps_pu, experiment.feeder.zones) == (None, {}, {})
    assert experiment.limits == VoltageLimits(0.95, 1.05)
    assert experiment.sites[0].connection_type == "wye"
    (site,) = experiment.sites
    with pytest.raises(
        InvalidSettingError, match=r"^total_gpu_capacity of site hall is 479; expected at least the 480"
    ):
        replace(experiment, sites=(replace(site, total_gpu_capacity=479),))


def test_a_model_of_ones_own(edited_village: Edit) -> None:
    spec = shipped_model("Llama-3.1-8B").spec
    edited_village('label = "Llama-3.1-8B"', 'label = "mine"')
    own = "\n".join(
        [
            "[[models]]",
            'label = "mine"',
            f'model_id = "{spec.model_id}"',
            'gpu_model = "H100"',
            f'task = "{spec.task}"',
            'precision = "bfloat16"',
            "gpus_per_replica = 1\ntensor_parallel = 1\nexpert_parallel = 1\nitl_deadline_s = 0.09",
            f"batch_sizes = {list(spec.batch_sizes)}",
            "feasible_batch_sizes = [32, 64, 128]\n",
        ]
    )
    path = edited_village("[overlay]", f"{own}[overlay]")
    experiment = load_experiment(path)
    assert experiment.spec("mine") == replace(
        spec, label="mine", itl_deadline_s=0.09, feasible_batch_sizes=(32, 64, 128)
    )
    twice = edited_village("[overlay]", f"{own}[overlay]")
    with pytest.raises(DataFileError, match=r"label in \[\[models\]\]: expected each only once \(twice: mine\)"):
        load_experiment(twice)


REFUSED = [
    ("[feeder]", "[feeder", "not a TOML file"),
    ("source_pu", "sorce_pu", "feeder.sorce_pu: is not known; "),
    ("[ofo]", "[of]", "of: is not known; "),
    ("[[pv_systems]]", "[[pv]]", "pv: is not known; "),
    ("[[pv_systems]]", "[pv_systems]", "pv_systems is .*; expected a list"),
    ("[[loads]]", "[loads]", "loads is .*; expected a list"),
    ("[[sites]]", "[sites]", "sites is .*; expected a list"),
    ('circuit = "village.dss"', "", "feeder.circuit: is missing"),
    ('name = "village"', "name = 3", "feeder.name is 3; expected a text"),
    ("source_pu = 1.005", "source_pu = 0", "feeder: source_pu is 0.0; expected more than 0"),
    ("source_pu = 1.005", "source_pu = inf", "feeder.source_pu is inf; expected a finite number"),
    ("reg1 = 1.01875", "reg1 = 3", "feeder: initial tap of reg1 is 3.0; expected between 0.5 and 1.5"),
    ("reg1 = 1.01875", "reg1 = nan", "feeder.initial_taps_pu.reg1 is nan; expected a finite number"),
    ('exclude_buses = ["source"]', 'exclude_buses = "source"', "feeder.exclude_buses is 'source'; expected a list"),
    ('name = "hall"', 'name = "my hall"', "sites.0: site name is 'my hall'; expected letters"),
    ("bus_kv = 4.16", "bus_kv = nan", "sites.0.bus_kv is nan; expected a finite number"),
    ("bus_kv = 4.16", 'bus_kv = "4.16"', "sites.0.bus_kv is '4.16'; expected a number"),
    ("bus_kv = 4.16", "bus_kv = true", "sites.0.bus_kv is True; expected a number"),
    ("bus_kv = 4.16", "bus_kv = 0", "sites.0: bus_kv of site hall is 0.0; expected more than 0"),
    ("bus_kv = 4.16", "bus_kv = 1979-05-27", "sites.0.bus_kv is .*1979-05-27.*expected a number"),
    ('bus = "harbour"', "bus = 671", "sites.0.bus is 671; expected a text"),
    ('bus = "harbour"', "bus = 1979-05-27", "sites.0.bus is .*1979-05-27.*expected a text"),
    ('bus = "harbour"', 'bus = "harbour"\nconnection_type = "star"', "connection_type of site hall is 'star'"),
    ("base_kw_per_phase = 45.0", "base_kw_per_phase = -1", "base_kw_per_phase of site hall is -1.0"),
    ("replicas = 240", 'replicas = "240"', r"sites.0.models.0.replicas is '240'; expected a whole number"),
    ("replicas = 240", "replicas = 240.5", r"sites.0.models.0.replicas is 240.5; expected a whole number"),
    ("replicas = 240", "replicas = true", r"sites.0.models.0.replicas is True; expected a whole number"),
    ("replicas = 240", "replicas = -1", r"sites.0.models.0: replicas of Llama-3.1-8B is -1; expected at least 0"),
    ("replicas = 120", "replicas = 120, initial_batch_size = 7", "feasible_batch_sizes of Qwen3-30B-A3B .*among them"),
    ("total_gpu_capacity = 640", "total_gpu_capacity = 100", "total_gpu_capacity of site hall is 100; .*480 GPUs"),
    ("total_gpu_capacity = 640", f"total_gpu_capacity = {'9' * 400}", "total_gpu_capacity of site hall .*finite"),
    ('"Qwen3-30B-A3B"', '"Llama-3.1-8B"', "models of site hall.*twice: Llama-3.1-8B"),
    ('"Qwen3-30B-A3B"', '"Qwen-9"', r"label in \[\[sites\]\]: no model 'Qwen-9'; 'scenario-lib models list' names"),
    ("power_factor = 0.9\n", "power_factor = 1.5\n", "loads.0: power_factor at bus lane is 1.5; expected at most 1"),
    ("power_factor = 0.9\n", "power_factor = 0\n", "loads.0: power_factor at bus lane is 0.0; expected at least"),
    ("peak_kw_per_phase = 20.0", "peak_kw_per_phase = -1", "loads.0: peak_kw_per_phase at bus lane is -1.0"),
    ("peak_kw_per_phase = 20.0", f"peak_kw_per_phase = {'9' * 400}", "loads.0.peak_kw_per_phase is .*(finite|valid) n"),
    ("n_gpus = 120", "n_gpus = 1.5", "overlay.n_gpus is 1.5; expected a whole number"),
    ("n_gpus = 120", "n_gpus = -5", "overlay: training job n_gpus is -5; expected at least 0"),
    ("t_end_s = 2000.0", "t_end_s = 5.0", "overlay: training job t_end_s is 5.0; expected at least 1000"),
    ("[overlay]", "[limits]\nv_min_pu = 1.1\n[overlay]", "limits: v_max_pu is 1.05; expected more than v_min_pu"),
    ("[overlay]", "[build]\nrandomize_ramps = 1\n[overlay]", "build.randomize_ramps is 1; expected true or false"),
    ("[overlay]", "[datacenter]\namplitude_scale_range = [1.1, 0.9]\n[overlay]", "datacenter: amplitude_scale_range"),
    ("[overlay]", "[datacenter]\ngpus_per_server = 0\n[overlay]", "datacenter: gpus_per_server is 0"),
    ("voltage_gradient_scale = 1", "voltage_gradient_scale = -1", "ofo voltage_gradient_scale is -1000000.0"),
    ("sensitivity_perturbation_kw = 20.0", "sensitivity_perturbation_kw = 0", "ofo sensitivity_perturbation_kw is 0.0"),
    ("sensitivity_perturbation_kw = 20.0", "v_min = 1.1", "ofo v_max is 1.05; expected more than v_min"),
    ("sensitivity_perturbation_kw = 20.0", "sensitivity_update_interval = 1.0", "sensitivity_update_interval is 1.0"),
    ('series_csv = "pv.csv"', "series_csv = 3", "series_csv is 3; expected the name of a CSV file"),
    ('series_csv = "pv.csv"', 'series_csv = "pv.csv"\nseries = {time_s = [0], kw_per_phase = [1]}', "no series beside"),
    ("0,30.0", "0,thirty", r"pv\.csv: .*'thirty'; expected a header line"),
    ("0,30.0", "0,nan", "pv_systems.0.series.kw_per_phase.0 is nan; .*finite"),
    ("0,30.0", "0", r"pv\.csv: .*two columns"),
    ("0,30.0", "900,30.0", "pv_systems.0.series: profile times is 'not rising'"),
    ("time_s,kw_per_phase\n", "", r"pv\.csv: begins with '0,30.0' .*expected a header line"),
]


@pytest.mark.parametrize(("old", "new", "message"), REFUSED)
def test_refusals_name_file_and_field(edited_village: Edit, old: str, new: str, message: str) -> None:
    path = edited_village(old, new)
    with pytest.raises(DataFileError, match=rf"(?s)^\S+/village/(experiment\.toml: .*)?{message}"):
        load_experiment(path)


HUGE = [
    ("replicas = 240", f"replicas = {10**17}", "replicas of Llama-3.1-8B"),
    ("replicas = 240", f"replicas = 240, initial_batch_size = {10**12}", "initial_batch_size of Llama-3.1-8B"),
    ("total_gpu_capacity = 640", f"total_gpu_capacity = {10**12}", "total_gpu_capacity of site hall"),
    ("total_gpu_capacity = 640", "total_gpu_capacity = 1000000", "total_gpu_capacity of all sites"),
    ("bus_kv = 4.16", "bus_kv = 1e9", "bus_kv of site hall"),
    ("base_kw_per_phase = 45.0", "base_kw_per_phase = 1e30", "base_kw_per_phase of site hall"),
    ("source_pu = 1.005", "source_pu = 1e300", "source_pu"),
    ("peak_kw_per_phase = 20.0", "peak_kw_per_phase = 1e12", "peak_kw_per_phase at bus lane"),
    ("n_gpus = 120", f"n_gpus = {10**15}", "training job n_gpus"),
    ("target_peak_w_per_gpu = 400.0", "target_peak_w_per_gpu = 1e12", "training job target_peak_w_per_gpu"),
    ("t_end_s = 2000.0", "t_end_s = 1e300", "training job t_end_s"),
    ("sensitivity_perturbation_kw = 20.0", "primal_step_size = 1e300", "ofo primal_step_size"),
    (
        "sensitivity_perturbation_kw = 20.0",
        f"sensitivity_update_interval = {10**18}",
        "ofo sensitivity_update_interval",
    ),
    ("[overlay]", "[limits]\nv_max_pu = 1e300\n[overlay]", "v_max_pu"),
    ("[overlay]", f"[datacenter]\ngpus_per_server = {10**18}\n[overlay]", "gpus_per_server"),
    ("[overlay]", "[datacenter]\ntemplate_duration_s = 1e12\n[overlay]", "template_duration_s"),
    ("[overlay]", "[datacenter]\nnoise_fraction = 1e12\n[overlay]", "noise_fraction"),
    ("[overlay]", "[datacenter]\namplitude_scale_range = [1, 1e12]\n[overlay]", "amplitude_scale_range"),
]


@pytest.mark.parametrize(("old", "new", "field"), HUGE)
def test_numbers_far_beyond_a_feeder_are_refused_at_once(edited_village: Edit, old: str, new: str, field: str) -> None:
    with pytest.raises(DataFileError, match=rf"{field} is .*; expected at most \d+") as caught:
        load_experiment(edited_village(old, new))
    assert len(str(caught.value)) < 500


def test_more_sites_than_any_feeder_has_are_refused_at_once(edited_village: Edit) -> None:
    site = """
    [[sites]]
    name = "s{}"
    bus = "harbour"
    bus_kv = 4.16
    base_kw_per_phase = 45.0
    total_gpu_capacity = 640
    models = [{{ label = "Llama-3.1-8B", replicas = 24 }}]
    """
    path = edited_village("[[pv_systems]]", "".join(map(site.format, range(1000))) + "\n[[pv_systems]]")
    with pytest.raises(DataFileError, match="sites: has 1001 entries; expected at most 100"):
        load_experiment(path)


# How OpenDSS would end the name and read a command, a property, a node or a comment.
ODD_NAMES = (
    "two words",
    "a\\nb",
    "a\\tb",
    "a=b",
    "a,b",
    "a;b",
    "a|b",
    "a~b",
    "a!b",
    "a(b",
    "a[b",
    "a{b",
    "a'b",
    '\\"',
    "",
    "\u00e9",
)


@pytest.mark.parametrize("odd", ODD_NAMES)
@pytest.mark.parametrize(
    "old",
    [
        'name = "village"',
        'name = "hall"',
        'bus = "harbour"',
        'bus = "lane"',
        'label = "Llama-3.1-8B"',
        'exclude_buses = ["source"]',
        "reg1 = 1.01875",
        'hall = ["mill"',
        '["mill"',
    ],
)
def test_names_that_could_be_read_as_commands_are_refused(edited_village: Edit, old: str, odd: str) -> None:
    word = next(
        word for word in ("village", "harbour", "lane", "Llama-3.1-8B", "source", "reg1", "hall", "mill") if word in old
    )
    new = (
        old.replace(f'"{word}"', f'"{odd}"')
        if f'"{word}"' in old and not old.startswith("hall =")
        else old.replace(word, f'"{odd}"', 1)
    )
    with pytest.raises(DataFileError, match=r"expected (a name|the name|letters|one)|name .* ships|no model") as caught:
        load_experiment(edited_village(old, new))
    assert "\n" not in str(caught.value)


def test_empty_series_are_refused(edited_village: Edit) -> None:
    path = edited_village('name = "village"', 'name = "other"')
    for text in ("", "\n", "time_s,kw_per_phase\n"):
        (path.parent / "pv.csv").write_text(text, encoding="utf-8")
        with pytest.raises(DataFileError, match=r"pv\.csv: .*0 rows below; expected a header line"):
            load_experiment(path)
    (path.parent / "pv.csv").write_text("t,kw\n\n0,1\n\n", encoding="utf-8")
    assert load_experiment(path).pv_systems[0].series == PowerSeries((0.0,), (1.0,))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"village.dss"', '"nowhere.dss"', r"experiment\.toml: \[feeder\] circuit names \S+nowhere\.dss"),
        ('"village.dss"', '""', r"experiment\.toml: \[feeder\] circuit names"),
        ('"pv.csv"', '"nowhere.csv"', r"nowhere\.csv: no such file; series_csv in \S+experiment\.toml names it"),
        ('"pv.csv"', '"."', r"no such file; series_csv in \S+experiment\.toml names it"),
    ],
)
def test_missing_files_are_named(edited_village: Edit, old: str, new: str, message: str) -> None:
    with pytest.raises(MissingDataError, match=message):
        load_experiment(edited_village(old, new))


def test_a_missing_or_unreadable_experiment_file(edited_village: Edit, tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match=r"nowhere\.toml: no such file"):
        load_experiment(tmp_path / "nowhere.toml")
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(MissingDataError, match=r"folder\.toml: no such file"):
        load_experiment(tmp_path / "folder.toml")
    path = edited_village('name = "village"', 'name = "other"')
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataFileError, match=r"experiment\.toml: not a TOML file"):
        load_experiment(path)
    path.write_text("", encoding="utf-8")
    with pytest.raises(DataFileError, match=r"experiment\.toml: feeder: is missing; sites: is missing"):
        load_experiment(path)


@pytest.mark.parametrize("name", ["ieee14", "", "IEEE13", "../feeders/ieee13", "/etc"])
def test_unknown_systems_are_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(
        UnknownNameError, match=r"system '.*' is not known; expected one of ieee123, ieee13, ieee34, or"
    ):
        load_experiment(name)


def test_experiments_are_checked_as_values_too(village: Experiment) -> None:
    (site,) = village.sites
    with pytest.raises(InvalidSettingError, match=r"^sites is .*at least one"):
        replace(village, sites=())
    with pytest.raises(InvalidSettingError, match=r"^site names: .*twice: hall"):
        replace(village, sites=(site, replace(site, name="Hall")))
    with pytest.raises(InvalidSettingError, match=r"^model label is 'Qwen3-30B-A3B'; expected one of Llama"):
        replace(village, models=village.models[:1])
    with pytest.raises(InvalidSettingError, match=r"^models of site hall is .*at least one"):
        replace(site, models=())
    with pytest.raises(InvalidSettingError, match=r"^ramps of x is .*not overlapping"):
        ModelDeployment("x", 5, ramps=(Ramp(1, 0.0, 10.0), Ramp(2, 9.0, 12.0)))
    assert ModelDeployment("x", 5, ramps=(Ramp(1, 0.0, 10.0), Ramp(2, 10.0, 12.0))).ramps[1].target_replicas == 2
