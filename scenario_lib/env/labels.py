"""Names of an observation's slots, for people and for plots."""

from scenario_lib.env.observation import ObservationConfig

_SUMMARY = ("worst undervoltage (pu)", "worst overvoltage (pu)", "fraction of bus-phases in violation")
_PER_MODEL = (
    "batch (0 smallest, 1 largest, log scale)",
    "latency over deadline",
    "replicas over initial replicas",
    "datacenter power (MW)",
    "change of batch",
)


def observation_labels(config: ObservationConfig, bus_phases: tuple[tuple[str, int], ...]) -> tuple[str, ...]:
    """One name per slot of an observation, in its order.

    Args:
        config: The layout.
        bus_phases: The grid's (bus, phase) pairs.
    """
    return (*_voltage_labels(config, bus_phases), *_summary_labels(config), *_model_labels(config))


def _voltage_labels(config: ObservationConfig, bus_phases: tuple[tuple[str, int], ...]) -> list[str]:
    if config.n_bus_phases == 0:
        return []
    if config.bus_phase_groups is not None:
        buses = [bus_phases[group[0]][0] for group in config.bus_phase_groups]
        return [f"{edge} voltage at bus {bus} (pu)" for bus in buses for edge in ("lowest", "highest")]
    zone = None if config.zone_buses is None else {bus.lower() for bus in config.zone_buses}
    kept = [(bus, phase) for bus, phase in bus_phases if zone is None or bus.lower() in zone]
    return [f"voltage at bus {bus}, phase {'ABC'[phase - 1]} (pu)" for bus, phase in kept]


def _summary_labels(config: ObservationConfig) -> list[str]:
    if config.zone_summary:
        return [f"{name}, zone {zone}" for zone in config.zone_summary for name in _SUMMARY]
    return list(_SUMMARY)


def _model_labels(config: ObservationConfig) -> list[str]:
    return [f"{name}, {label}" for label in config.model_labels for name in _PER_MODEL]
