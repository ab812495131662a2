"""What a page says about a library, gathered once: contents, candidates, draws, and whether it holds."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from scenario_lib.library.candidates import read_candidates
from scenario_lib.library.contents import LibraryContents, read_contents
from scenario_lib.library.files import CANDIDATES
from scenario_lib.library.loader import ScenarioLibrary
from scenario_lib.screening.candidate_columns import CandidateColumns, columns_of_records, columns_of_table
from scenario_lib.screening.draws import Draws, draws_of_table
from scenario_lib.screening.library_info import LibraryInfo, library_info
from scenario_lib.screening.validate import ReplayOptions, ValidationReport, validate_library


@dataclass(frozen=True, slots=True)
class LibraryFacts:
    """A library as a page needs it.

    Attributes:
        library: None if it accepted nothing.
        columns: All candidates; the records alone where there is no candidates table.
        draws: None where there is no candidates table.
        validation: Of files and draws; None for a library that accepted nothing.
    """

    info: LibraryInfo
    contents: LibraryContents
    library: ScenarioLibrary | None
    columns: CandidateColumns
    draws: Draws | None
    validation: ValidationReport | None

    @property
    def has_table(self) -> bool:
        """Whether rejected candidates are known."""
        return self.draws is not None

    def kinds(self) -> dict[str, int]:
        """Accepted scenarios by kind of violation."""
        kept = self.columns.kind[self.columns.accepted]
        return {kind: int(np.count_nonzero(kept == kind)) for kind in ("under", "over", "mixed")}

    def accepted(self, name: str) -> Iterator[float]:
        """One column of the accepted candidates."""
        yield from getattr(self.columns, name)[self.columns.accepted].tolist()


def library_facts(path: Path) -> LibraryFacts:
    """Read a library, draw its candidates again, and check its files and draws.

    Raises:
        LibraryError: Not a library, or damaged.
    """
    path = path.resolve()
    info, contents = library_info(path), read_contents(path)
    library = ScenarioLibrary(path) if contents.records else None
    columns, draws = columns_of_records(contents.records), None
    if contents.digests:
        with contents.unchanged(path / CANDIDATES) as stream:
            table = read_candidates(path / CANDIDATES, stream)
        columns, draws = columns_of_table(table), draws_of_table(table, contents.recipes)
    validation = validate_library(path, ReplayOptions()) if library is not None else None
    return LibraryFacts(info, contents, library, columns, draws, validation)
