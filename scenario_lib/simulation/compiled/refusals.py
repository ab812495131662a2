"""What of a circuit the compiled engine does not model, found by name before anything is computed."""

from collections.abc import Iterator

from openg2g.grid.opendss import dss

from scenario_lib.simulation.compiled.errors import NotModelledError
from scenario_lib.simulation.compiled.load_currents import KNOWN_MODELS

# Elements whose whole effect is in Y or in constant source currents, or that do nothing while controls are off.
_IN_ADMITTANCE = ("vsource", "line", "transformer", "capacitor", "reactor")
_IDLE = ("regcontrol", "capcontrol", "energymeter", "monitor")
_MODELLED_CLASSES = frozenset(("load", *_IN_ADMITTANCE, *_IDLE))
_CONTROLS_OFF = -1
# Solution options as OpenDSS writes them; all are its defaults.
_OPTIONS = {"Algorithm": "Normal", "Tolerance": "0.0001", "MaxIterations": "15", "MinIterations": "2"}


def refuse_what_is_not_modelled() -> None:
    """Look at the active circuit.

    Raises:
        NotModelledError: Naming the first thing found.
    """
    for found in _findings():
        raise NotModelledError(found)


def what_is_not_modelled() -> tuple[str, ...]:
    """Everything in the active circuit that this engine does not model, by name."""
    return tuple(_findings())


def _findings() -> Iterator[str]:
    for name in dss.Circuit.AllElementNames():
        if str(name).partition(".")[0].lower() not in _MODELLED_CLASSES:
            yield f"the element {name}"
    if dss.Solution.ControlMode() != _CONTROLS_OFF:
        yield "control loops inside a power flow (OpenDSS's ControlMode is not Off)"
    if dss.Solution.LoadMult() != 1.0:
        yield f"a load multiplier (LoadMult is {dss.Solution.LoadMult()})"
    for option, modelled in _OPTIONS.items():
        dss.Text.Command(f"Get {option}")
        if str(dss.Text.Result()) != modelled:
            yield f"the solution option {option} {dss.Text.Result()} (it models {modelled})"
    for load in dss.Loads:
        yield from _load_findings(str(load.Name()))
    for bus in dss.Circuit.AllBusNames():
        dss.Circuit.SetActiveBus(bus)
        if dss.Bus.kVBase() <= 0:
            yield f"the bus {bus} without a voltage base"


def _load_findings(name: str) -> Iterator[str]:
    model, phases, delta = int(dss.Loads.Model()), int(dss.Loads.Phases()), bool(dss.Loads.IsDelta())
    nodes = list(dss.CktElement.NodeOrder())
    if model not in KNOWN_MODELS:
        yield f"load {name} of OpenDSS load model {model}"
    if delta and phases == 2:
        yield f"load {name}: two phases in delta"
    if not delta and nodes[-1] != 0:
        yield f"load {name}: a neutral that is not grounded"
    if not delta and (dss.Loads.Rneut() >= 0 or dss.Loads.Xneut() > 0):
        yield f"load {name}: a neutral impedance"
    if dss.Loads.CVRCurve():
        yield f"load {name}: the curve {dss.Loads.CVRCurve()} of its voltage exponents"
    if not dss.CktElement.Enabled():
        yield f"load {name}, which is disabled"
