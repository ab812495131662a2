"""A first experiment for a circuit that has none."""

from pathlib import Path

import pytest

from scenario_lib.errors import BuildRefusedError, UnknownNameError
from scenario_lib.screening.first_experiment import suggest_experiment
from scenario_lib.screening.first_experiment_text import write_first_experiment
from scenario_lib.simulation.opendss.check import check_own_feeder


def _circuit(village_file: Path) -> Path:
    (circuit,) = village_file.parent.glob("*.dss")
    return circuit


def test_the_file_that_is_written_says_what_was_suggested(village_file: Path, tmp_path: Path) -> None:
    suggestion = suggest_experiment(_circuit(village_file), candidates=0)
    out = tmp_path / "first" / "experiment.toml"
    assert write_first_experiment(out, suggestion) == suggestion.experiment
    checked = check_own_feeder(_circuit(village_file), 700.0, (suggestion.host.bus,))
    assert suggestion.experiment.feeder.initial_taps_pu == checked.found.regulator_taps_pu
    assert suggestion.host == checked.hosting[0]
    assert suggestion.host.bus == suggestion.experiment.sites[0].bus
    assert suggestion.host.kw_per_phase >= 30
    with pytest.raises(BuildRefusedError, match="add --overwrite"):
        write_first_experiment(out, suggestion)


def test_a_bus_that_cannot_host_is_named(village_file: Path) -> None:
    with pytest.raises(UnknownNameError, match="nowhere"):
        suggest_experiment(_circuit(village_file), buses=("nowhere",), candidates=0)
