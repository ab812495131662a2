"""Are a library's files the ones that were written, and do they say the same of its records?"""

from collections import Counter
from collections.abc import Iterator
from itertools import compress

from scenario_lib.errors import LibraryError
from scenario_lib.feeders.canonical import file_digest
from scenario_lib.library.candidates import read_candidates
from scenario_lib.library.files import CANDIDATES, DIGESTED, DIGESTS, FORMAT_VERSION, METADATA, json_lines
from scenario_lib.library.loader import ScenarioLibrary
from scenario_lib.screening.findings import Cause, Finding, Grade

_DAMAGED = (Cause.DAMAGED_FILE,)


def check_files(library: ScenarioLibrary) -> Iterator[Finding]:
    """Compare every file but the build log with its digest; nothing to compare in a library without digests."""
    digests = library.contents.digests
    if not digests:
        return
    for name in DIGESTED:
        file = library.path / name
        if not file.is_file():
            yield Finding(Grade.DIFFERS, f"{file}: missing", _DAMAGED)
        elif file_digest(file) != digests.get(name):
            text = f"{file}: is not the file that was written (its digest differs)"
            yield Finding(Grade.DIFFERS, text, _DAMAGED)
    # No digest covers the digests; but they can be written in one way only.
    written = "".join(json_lines({"format_version": FORMAT_VERSION, "sha256": digests}))
    if (library.path / DIGESTS).read_bytes() != written.encode():
        yield Finding(Grade.DIFFERS, f"{library.path / DIGESTS}: is not the file that was written", _DAMAGED)
    yield from _check_candidates(library)


def _check_candidates(library: ScenarioLibrary) -> Iterator[Finding]:
    path = library.path / CANDIDATES
    try:
        rows = read_candidates(path)
    except LibraryError as error:
        yield Finding(Grade.DIFFERS, str(error), _DAMAGED)
        return
    recipes, seeds, accepted = (rows.column(name).to_pylist() for name in ("recipe", "seed", "accepted"))
    listed = Counter(compress(zip(recipes, seeds, strict=True), accepted))
    if listed != Counter((record.proof.recipe, record.seed) for record in library if record.proof):
        text = f"{path}: accepted seeds are not those of {METADATA}"
        yield Finding(Grade.DIFFERS, text, (Cause.EDITED_RECORD,))
