"""Every error this project raises on purpose.

One base class, so that a caller can catch what scenario-lib found wrong and nothing else. Each error is also
the builtin a Python programmer would expect, so that code which knows nothing of this project still works.
Messages name the file or field, what was found, what was expected, and the remedy.

The error of the compiled engine: what it does not model, so that a caller can take the reference engine.
"""


class ScenarioLibError(Exception):
    """Base of every error raised on purpose by scenario-lib."""


class InvalidSettingError(ScenarioLibError, ValueError):
    """A setting, argument or file entry has a value that is not allowed."""


class UnknownNameError(ScenarioLibError, LookupError, ValueError):
    """A feeder, model, site, policy or seed of that name does not exist."""


class DataFileError(ScenarioLibError, ValueError):
    """A file exists but does not hold what it should."""


class SettingsFileError(DataFileError, InvalidSettingError):
    """A settings file of the user's has a name that is not known, or a value that is not allowed."""


class MissingDataError(ScenarioLibError, FileNotFoundError):
    """A file or directory that is needed is not there."""


class IrregularFileError(ScenarioLibError, OSError):
    """A pipe, a device or a socket is where a file is expected; it was not read."""


class PowerFlowError(ScenarioLibError, ArithmeticError):
    """OpenDSS did not converge.

    Attributes:
        step: Simulated second at which the power flow failed, or None during the start-up solve.
        during: "start-up", "step" or "sensitivity estimate".
    """

    def __init__(self, step: int | None, during: str) -> None:
        super().__init__(step, during)
        self.step = step
        self.during = during

    def __str__(self) -> str:
        where = "before the first step" if self.step is None else f"at second {self.step}"
        return f"the power flow did not converge {where} (during the {self.during})"


class LibraryError(ScenarioLibError, ValueError):
    """A library on disk cannot be used: not a library, damaged, changed, empty, or of another version."""


class ReplayError(ScenarioLibError, ValueError):
    """A record cannot be replayed exactly, so it is not replayed at all."""


class BuildRefusedError(ScenarioLibError, RuntimeError):
    """A build may not start: target exists, another build runs, the disk is too small, or the journal differs."""


class NightBusyError(ScenarioLibError, RuntimeError):
    """Another nightly run is under way in the same directory."""


class TaskTimeoutError(ScenarioLibError, TimeoutError):
    """One task of a parallel run took longer than it may."""


class EnvironmentUseError(ScenarioLibError, RuntimeError):
    """An environment was stepped before reset or after the end."""


class NotCopyableError(ScenarioLibError, TypeError):
    """An environment cannot be copied or pickled as it stands; the message says what to do instead."""


class EngineInUseError(ScenarioLibError, RuntimeError):
    """Another simulation took over the one OpenDSS engine of this process."""


class MissingExtraError(ScenarioLibError, ImportError):
    """An optional part of the installation is needed and not there."""


class TrainingError(ScenarioLibError, RuntimeError):
    """A training run may not start (directory in use, another run to be resumed, other data)."""


class PolicyError(ScenarioLibError, ValueError):
    """A policy directory cannot be used: not one, damaged, edited, of another version, or for another feeder."""


class ControllerError(ScenarioLibError, ValueError):
    """A controller of the user's own raised an error, or returned something else than feasible batch sizes."""


class SharedSeedsError(ScenarioLibError, ValueError):
    """A policy would be evaluated on scenarios that it was trained on."""


class ClusterError(ScenarioLibError, ConnectionError):
    """A cluster cannot be used: nobody answers, it has no workers, or one of them has other versions or data."""


class UnwritableFileError(ScenarioLibError, OSError):
    """A file cannot be written: the disk is full, or read-only. What was there before is still there."""


class NotModelledError(ScenarioLibError, NotImplementedError):
    """The compiled engine does not model something of this experiment or policy; the reference engine does.

    Attributes:
        what: Name of the element, setting or policy, and why it is refused.
    """

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return f"the compiled engine does not model {self.what}; use the reference engine"
