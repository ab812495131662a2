"""Experiments and scenarios on which both engines are compared."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from scenario_lib.feeders.experiment import Experiment, Feeder
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.feeders.sites import PVSystem, Site, TimeVaryingLoad
from scenario_lib.scenario.settings import RandomizationSettings, Range

# Every load model and connection, a transformer with a phase shift, a lateral of one phase, shunts, voltage
# exponents other than the defaults, and a limit of a load's band below its usual place.
USERS_CIRCUIT = """
Clear
New Circuit.village basekv=12.47 pu=1.02 phases=3 bus1=grid mvasc3=500 mvasc1=400
New Linecode.overhead nphases=3 units=km
~ rmatrix=(0.09 | 0.03 0.09 | 0.03 0.03 0.09) xmatrix=(0.2 | 0.09 0.2 | 0.08 0.09 0.2)
New Linecode.lateral nphases=1 rmatrix=(0.3) xmatrix=(0.35) units=km
New Line.main bus1=grid bus2=substation linecode=overhead length=3 units=km
New Transformer.step phases=3 windings=2 buses=(substation town) conns=(delta wye)
~ kvs=(12.47 4.16) kvas=(9000 9000) xhl=6 %rs=(0.5 0.5)
New Transformer.booster phases=1 windings=2 buses=(town.1 high.1) kvs=(2.4 2.4) kvas=(2000 2000) xhl=0.01 %loadloss=0.01
New RegControl.booster transformer=booster winding=2 vreg=122 band=2 ptratio=20
New Line.street2 bus1=town.2 bus2=high.2 linecode=lateral length=0.01 units=km
New Line.street3 bus1=town.3 bus2=high.3 linecode=lateral length=0.01 units=km
New Line.street bus1=high bus2=square linecode=overhead length=0.6 units=km
New Line.lane bus1=square.2 bus2=farm.2 linecode=lateral length=0.4 units=km
New Capacitor.bank bus1=square phases=3 kvar=300 kv=4.16
New Reactor.shunt bus1=town phases=3 kvar=60 kv=4.16
New Load.mill bus1=square phases=3 conn=delta model=1 kv=4.16 kw=400 kvar=150
New Load.shop bus1=town phases=3 conn=wye model=5 kv=4.16 kw=200 kvar=90 vminpu=0.9
New Load.lamps bus1=square.1.2 phases=1 conn=delta model=2 kv=4.16 kw=60 kvar=20
New Load.pump bus1=town.3 phases=1 conn=wye model=4 kv=2.4 kw=80 kvar=30 CVRwatts=0.8 CVRvars=3
New Load.barn bus1=farm.2 phases=1 conn=wye model=1 kv=2.4 kw=50 kvar=10 vminpu=0.97 vmaxpu=1.01 vlowpu=0.6
Set VoltageBases=[12.47 4.16]
CalcVoltageBases
Solve
"""

_EVENTFUL = RandomizationSettings(
    n_ramps_per_site_choices=(1, 2),
    ramp_up_prob=0.5,
    ramp_start=Range(5.0, 60.0),
    ramp_dur=Range(20.0, 150.0),
    randomize_pv_profile=True,
    randomize_tvl_profile=True,
    pv_t_shift_max_s=300.0,
)


@pytest.fixture(scope="session")
def eventful() -> RandomizationSettings:
    """Several ramps within the first minutes, up and down, and sampled profiles."""
    return _EVENTFUL


@pytest.fixture(scope="session")
def shrink_site() -> Callable[[Site, int], Site]:
    """A function that gives a site with a fraction of its replicas."""
    return few_replicas


@pytest.fixture(scope="session")
def users_experiment(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    """A feeder that does not ship, with a datacenter in delta, on few servers."""
    circuit: Path = tmp_path_factory.mktemp("village") / "village.dss"
    circuit.write_text(USERS_CIRCUIT, encoding="utf-8")
    template = load_experiment("ieee13")
    return replace(
        template,
        feeder=Feeder("village", str(circuit), 1.03, {"booster": 1.0125}, ("grid",)),
        sites=(few_replicas(replace(template.sites[0], bus="square", connection_type="delta"), 10),),
        pv_systems=(PVSystem("farm", 4.16, 150.0), PVSystem("town", 4.16, 80.0, power_factor=0.98)),
        loads=(TimeVaryingLoad("square", 4.16, 60.0),),
        overlay=replace(template.overlay, n_gpus=64, t_start_s=50.0, t_end_s=200.0),
    )


def few_replicas(site: Site, divisor: int) -> Site:
    """The site with a fraction of its replicas, ramps and servers: some models have at most 30."""
    models = tuple(
        replace(
            model,
            replicas=model.replicas // divisor,
            ramps=tuple(replace(ramp, target_replicas=ramp.target_replicas // divisor) for ramp in model.ramps),
        )
        for model in site.models
    )
    return replace(
        site,
        models=models,
        base_kw_per_phase=site.base_kw_per_phase / divisor,
        total_gpu_capacity=site.total_gpu_capacity // divisor,
    )
