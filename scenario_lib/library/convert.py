"""From the contract's two files to a sharded library and back, losing nothing: back again, the bytes are equal."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from scenario_lib.errors import InvalidSettingError, IrregularFileError, LibraryError
from scenario_lib.feeders.canonical import file_digest
from scenario_lib.feeders.regular_files import open_regular
from scenario_lib.library.contents import LibraryContents, read_contents
from scenario_lib.library.files import BUILD_LOG, CANDIDATES, DIGESTS, METADATA, RESOLVED, TRACES
from scenario_lib.library.place import new_library, require_place
from scenario_lib.library.to_contract import write_contract
from scenario_lib.library.to_shards import write_sharded

CONTRACT, SHARDED = "contract", "sharded"
STORES = (CONTRACT, SHARDED)


@dataclass(frozen=True, slots=True)
class Conversion:
    """What a conversion did.

    Attributes:
        source_bytes, target_bytes: Sizes on disk, the build log apart.
        notes: What is equal in content but not in bytes, and why.
    """

    source: Path
    target: Path
    store: str
    records: int
    source_bytes: int
    target_bytes: int
    notes: tuple[str, ...]


def store_of(contents: LibraryContents) -> str:
    """How a library is stored: "contract" or "sharded"."""
    return CONTRACT if contents.layout is None else SHARDED


def convert_library(source: Path, store: str, out: Path, overwrite: bool = False) -> Conversion:
    """Write a library in its other form; the source stays as it is.

    Args:
        source: A library with digests; it may hold no records.
        store: "contract" or "sharded".
        out: Where the new library is put, whole, at the end.
        overwrite: Replace a library that is there.

    Raises:
        InvalidSettingError: The library is stored so already, or there is no such store.
        LibraryError: The library has no digests, is damaged, or holds what would not come back with equal bytes.
        BuildRefusedError: Something is at `out`, or another process writes there.
    """
    source = source.resolve()
    require_place(out, overwrite, [source])
    contents = read_contents(source)
    _require_convertible(source, contents, store)
    with new_library(out, overwrite, [source]) as folder:
        _copy_unchanged(source, contents, folder)
        (write_sharded if store == SHARDED else write_contract)(source, contents, folder)
        if (source / BUILD_LOG).is_file():
            _copy(source / BUILD_LOG, folder / BUILD_LOG)
        target_bytes, notes = _size(folder), _notes(folder, contents) if store == CONTRACT else ()
    return Conversion(source, out.resolve(), store, len(contents.records), _size(source), target_bytes, notes)


def _require_convertible(source: Path, contents: LibraryContents, store: str) -> None:
    if store not in STORES:
        raise InvalidSettingError(f"store is {store!r}; expected one of {', '.join(STORES)}")
    if store_of(contents) == store:
        raise InvalidSettingError(f"{source}: is stored as {store!r} already")
    if not contents.digests:
        raise LibraryError(
            f"{source / METADATA}: has no digests, so nothing would tell whether a conversion is exact; build the "
            f"library with scenario-lib"
        )


def _copy_unchanged(source: Path, contents: LibraryContents, folder: Path) -> None:
    _copy(source / CANDIDATES, folder / CANDIDATES)
    if file_digest(folder / CANDIDATES) != contents.digests.get(CANDIDATES):
        raise LibraryError(f"{source / CANDIDATES}: is not the file that was written with this library; validate it")


def _copy(source: Path, target: Path) -> None:
    try:
        with open_regular(source) as stream, target.open("wb") as copy:
            shutil.copyfileobj(stream, copy)
    except IrregularFileError as error:
        raise LibraryError(str(error)) from None


def _notes(folder: Path, contents: LibraryContents) -> tuple[str, ...]:
    """Refuse files unlike those that were converted; another Parquet writer is allowed, and noted."""
    expected = {} if contents.layout is None else contents.layout.contract
    for name in (METADATA, TRACES):
        if file_digest(folder / name) != expected.get(name):
            raise LibraryError(f"{folder / name}: does not come back with the bytes that it had; validate the library")
    if file_digest(folder / RESOLVED) == expected.get(RESOLVED):
        return ()
    return (f"{RESOLVED} has the same rows in other bytes: another version of pyarrow wrote it; {DIGESTS} agrees",)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir() if path.name != BUILD_LOG)
