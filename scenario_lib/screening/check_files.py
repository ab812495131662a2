"""Are a library's files the ones that were written, and do they say the same of its records?"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import compress
from pathlib import Path
from typing import Any

from scenario_lib.errors import LibraryError
from scenario_lib.feeders.canonical import canonical_json, file_digest, first_difference
from scenario_lib.feeders.regular_files import read_bytes
from scenario_lib.library.candidates import read_candidates
from scenario_lib.library.config import CONFIG_BANDS, config_of
from scenario_lib.library.files import CANDIDATES, DIGESTS, FORMAT_VERSION, METADATA, json_lines
from scenario_lib.library.loader import ScenarioLibrary
from scenario_lib.screening.findings import Cause, Finding, Grade


def damaged_files(library: ScenarioLibrary) -> dict[str, str]:
    """What is wrong with each file that is not the one that was written, by its name; the build log may be any.

    A library without digests has nothing to compare.
    """
    digests = library.contents.digests
    if not digests:
        return {}
    files = library.contents.files
    damaged = {name: text for name in files if (text := _damage(library.path / name, digests.get(name)))}
    # No digest covers the digests; but they can be written in one way only.
    written = "".join(json_lines({"format_version": FORMAT_VERSION, "sha256": digests}))
    if read_bytes(library.path / DIGESTS) != written.encode():
        damaged[DIGESTS] = f"{library.path / DIGESTS}: is not the file that was written"
    return damaged


def _damage(file: Path, digest: str | None) -> str | None:
    if not file.is_file():
        return f"{file}: missing"
    if file_digest(file) != digest:
        return f"{file}: is not the file that was written (its digest differs)"
    return None


def check_files(library: ScenarioLibrary, damaged: Mapping[str, str]) -> Iterator[Finding]:
    """Report damaged files, and see that the others say the same of recipes and records."""
    for text in damaged.values():
        yield Finding(Grade.DIFFERS, text, (Cause.DAMAGED_FILE,))
    if library.contents.digests:
        yield from _check_config(library)
        if CANDIDATES not in damaged:  # what parses a table trusts it more than a damaged one deserves
            yield from _check_candidates(library)


def _check_config(library: ScenarioLibrary) -> Iterator[Finding]:
    """The contract's `config` repeats the one recipe for openg2g's loader; that of several recipes does not."""
    config = library.config
    if len(library.recipes) != 1 or "randomize_kwargs" not in config:
        return
    (recipe,) = library.recipes.values()
    bands: dict[str, Any] = {name: config.get(name) for name in CONFIG_BANDS}
    expected = json.loads(canonical_json(config_of(recipe, config.get("n_candidates", 0), bands)))
    change = first_difference(config, expected)
    if change:
        text = f"{library.path / METADATA}: config is not what its recipe says ({change})"
        yield Finding(Grade.DIFFERS, text, (Cause.EDITED_RECIPE,))


def _check_candidates(library: ScenarioLibrary) -> Iterator[Finding]:
    path = library.path / CANDIDATES
    try:
        rows = read_candidates(path)
    except LibraryError as error:
        yield Finding(Grade.DIFFERS, str(error), (Cause.DAMAGED_FILE,))
        return
    recipes, seeds, accepted = (rows.column(name).to_pylist() for name in ("recipe", "seed", "accepted"))
    listed = Counter(compress(zip(recipes, seeds, strict=True), accepted))
    if listed != Counter((record.proof.recipe, record.seed) for record in library if record.proof):
        text = f"{path}: accepted seeds are not those of {METADATA}"
        yield Finding(Grade.DIFFERS, text, (Cause.EDITED_RECORD,))
