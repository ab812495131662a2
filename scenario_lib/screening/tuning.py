"""How OFO is tuned in screening, which is what verdicts mean; everything else takes the experiment's tuning."""

from dataclasses import replace

from scenario_lib.feeders.experiment import Experiment, OFOTuning

_SCREENING_SENSITIVITY_INTERVAL_S = 300
_SCREENING_W_THROUGHPUT = 1e-4


def as_screened(experiment: Experiment) -> Experiment:
    """The experiment with OFO tuned as verdicts mean it: two figures are screening's own, on every feeder alike."""
    return replace(
        experiment,
        ofo=replace(
            experiment.ofo,
            sensitivity_update_interval=_SCREENING_SENSITIVITY_INTERVAL_S,
            w_throughput=_SCREENING_W_THROUGHPUT,
        ),
    )


def tuning_text(tuning: OFOTuning) -> str:
    """The two figures in which screening's OFO may differ from an experiment's."""
    return f"w_throughput {tuning.w_throughput:g}, sensitivity every {tuning.sensitivity_update_interval} s"
