"""Rollouts, records or tables in, matplotlib figures out; none of them has any pyplot state.

Importing this package needs matplotlib (the extra `plot`), and nothing imports it before a picture is asked for.

Raises:
    MissingExtraError: matplotlib is not installed.
"""

from importlib.util import find_spec

from scenario_lib.errors import MissingExtraError

if find_spec("matplotlib") is None:
    raise MissingExtraError("pictures need matplotlib, which is not here: pip install 'scenario-lib[plot]'")
