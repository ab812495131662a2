"""Obtain measured power traces, latency and fits of ML.ENERGY Benchmark v3, through openg2g's own loader."""

from collections.abc import Sequence
from pathlib import Path

from openg2g.controller.ofo import LogisticModelStore
from openg2g.datacenter.workloads.inference import InferenceData

from scenario_lib.errors import MissingDataError
from scenario_lib.execution.tasks import one_line
from scenario_lib.feeders.models import ModelSpec
from scenario_lib.simulation.assets import openg2g_spec

_DATA_SET = "ml-energy/benchmark-v3"


def fetch_measured_specs(out: Path, models: Sequence[ModelSpec], mlenergy_data_dir: Path | None = None) -> None:
    """Write the spec cache of these models from measurements; models already there are kept.

    Args:
        out: Directory of the cache.
        mlenergy_data_dir: A local copy of the data set; None downloads it with the user's token (HF_TOKEN).

    Raises:
        MissingDataError: The data could not be obtained; the message says what to do.
    """
    specs = tuple(openg2g_spec(spec) for spec in models)
    try:
        InferenceData.ensure(out, specs, mlenergy_data_dir=mlenergy_data_dir)
        LogisticModelStore.ensure(out, specs, mlenergy_data_dir=mlenergy_data_dir)
    except Exception as error:  # noqa: BLE001 - the hub's client raises classes of several packages
        raise MissingDataError(
            f"{out}: the measured data could not be obtained ({one_line(error)}). They are gated: accept "
            f"the terms of the data set {_DATA_SET} on the Hugging Face Hub and set HF_TOKEN to a token that may read "
            f"it, or give a local copy with --mlenergy-data-dir. Without them, leave --specs-dir away: the shipped "
            f"synthetic traces have the same statistics"
        ) from None
