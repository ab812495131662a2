"""Pages for people: a library, several libraries side by side, an evaluation of policies.

Each is one HTML file that needs no network and no script, equal whenever its inputs and matplotlib are. Importing
this package needs the extra `plot` (matplotlib and Jinja).

Raises:
    MissingExtraError: One of them is not installed.
"""

from importlib.util import find_spec

from scenario_lib.errors import MissingExtraError

for _name in ("matplotlib", "jinja2"):
    if find_spec(_name) is None:
        raise MissingExtraError(f"pages need {_name}, which is not here: pip install 'scenario-lib[plot]'")
