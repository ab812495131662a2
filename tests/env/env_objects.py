"""Stand-ins for a grid and a datacenter, with the attributes of openg2g's."""

from types import SimpleNamespace

import numpy as np

from scenario_lib.env.observation import ObservationConfig

V_INDEX = (("a", 1), ("a", 2), ("B", 1), ("c", 3))


class Grid:
    """Four bus-phases at given voltages (pu)."""

    v_index = V_INDEX

    def __init__(self, *voltages):
        self._voltages = np.array(voltages or (0.94, 1.0, 1.06, 1.0))

    def voltages_vector(self):
        return self._voltages


def datacenter(batch, itl=None, replicas=None, power_w=(1e6, 2e6, 3e6)):
    a, b, c = power_w
    return SimpleNamespace(
        state=SimpleNamespace(
            batch_size_by_model=batch,
            active_replicas_by_model=replicas or {},
            observed_itl_s_by_model=itl or {},
            power_w=SimpleNamespace(a=a, b=b, c=c),
        )
    )


def config(**changes):
    fields = {
        "model_labels": ("m",),
        "feasible_batch_sizes": {"m": (8, 16, 32, 64, 128)},
        "itl_deadlines": {"m": 0.1},
        "max_replicas": {"m": 10},
        "n_bus_phases": 4,
    }
    return ObservationConfig(**{**fields, **changes})
