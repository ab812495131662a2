"""The error of the compiled engine: what it does not model, so that a caller can take the reference engine."""

from scenario_lib.errors import ScenarioLibError


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
