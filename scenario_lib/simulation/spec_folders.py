"""Which spec cache rollouts read: a user's own, the shipped one, or one made on the spot for models of the catalogue.

The shipped cache holds the five models with measured statistics. For a model of the catalogue the same files are made
from its figures, in a temporary folder: it takes a tenth of a second, and the same figures give the same bytes.
"""

import logging
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from scenario_lib.errors import MissingDataError
from scenario_lib.feeders.data_files import data_dir
from scenario_lib.feeders.models import ModelSpec
from scenario_lib.feeders.published_fits import model_data
from scenario_lib.feeders.published_models import published_models
from scenario_lib.simulation.spec_cache import write_spec_cache

logger = logging.getLogger(__name__)


@contextmanager
def opened_specs(models: Sequence[ModelSpec], specs_dir: str | Path | None) -> Iterator[Path]:
    """A folder with the data of these models, as long as the context lasts.

    A model is known by what was measured of it (its `cache_hash`), so that an experiment may give a model of the
    catalogue another label, another deadline, or fewer feasible batch sizes.

    Raises:
        MissingDataError: `specs_dir` is not a directory.
    """
    if specs_dir is not None:
        yield _given(Path(specs_dir).resolve())
        return
    shipped = data_dir() / "specs"
    absent = {spec.cache_hash() for spec in models if not (shipped / spec.cache_hash()).is_dir()}
    made = [model for model in published_models() if model.spec().cache_hash() in absent] if absent else []
    if not made:
        yield shipped
        return
    with TemporaryDirectory(prefix="scenario-lib-specs-") as temporary:
        folder = Path(temporary)
        logger.debug("data made from published figures: %s", ", ".join(model.label for model in made))
        write_spec_cache(folder, [model_data(model) for model in made])
        for spec in models:
            if spec.cache_hash() not in absent:
                shutil.copytree(shipped / spec.cache_hash(), folder / spec.cache_hash(), dirs_exist_ok=True)
        yield folder


def _given(folder: Path) -> Path:
    if not folder.is_dir():
        raise MissingDataError(f"{folder}: no such directory; --specs-dir expects a spec cache in openg2g's layout")
    return folder
