"""How a sharded library is laid out: what `store` in its metadata says, and the names of its files.

A sharded library holds what the two-file contract holds, for libraries of 10 000 records and more:

- `metadata.json`: as in the contract, with `store` in place of `scenarios` and `proofs`, so that openg2g's loader stops
  with a KeyError;
- `records.arrow`: one row a record, the contract's fields and the digests; read and checked when the library is opened;
- `shard-<k>.arrow`: penalty traces and resolved numbers of 1000 consecutive records; each read when asked for;
- `candidates.parquet`, `digests.json` and `build-log.json`: as in the contract.
"""

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from scenario_lib._parsing import parse_as
from scenario_lib._values import STRICT, require_between, require_count
from scenario_lib.errors import LibraryError

STORE_FORMAT_VERSION = 1
"""Raised when a change of the Arrow files would make older readers misread them; `format_version` is apart from it."""

STORE = "store"
RECORDS = "records.arrow"
RECORDS_PER_SHARD = 1000
"""About 16 MB a shard: few files, and little is mapped for one row."""

_LARGEST_SHARD = 1_000_000


@dataclass(frozen=True, slots=True)
class StoreLayout:
    """The entry `store` of a sharded library's metadata.

    Attributes:
        records: Records in all.
        records_per_shard: Records in each shard but the last.
        contract: SHA-256 of the files that the two-file form of this library has and this form has not.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = STRICT

    format_version: int
    records: int
    records_per_shard: int
    contract: dict[str, str]

    def __post_init__(self) -> None:
        require_count("records", self.records, 0)
        require_count("records_per_shard", self.records_per_shard, 1)
        require_between("records_per_shard", self.records_per_shard, 1, _LARGEST_SHARD)

    def to_dict(self) -> dict[str, Any]:
        """The layout as plain values."""
        return asdict(self)

    @property
    def n_shards(self) -> int:
        """Number of shards."""
        return -(-self.records // self.records_per_shard)

    def shard_records(self, number: int) -> int:
        """Records in one shard."""
        return min(self.records_per_shard, self.records - number * self.records_per_shard)

    def shard_of(self, index: int) -> str:
        """File name of the shard that holds a record."""
        return shard_name(index // self.records_per_shard)

    def files(self) -> tuple[str, ...]:
        """Names of all files that `digests.json` lists."""
        return (METADATA, RECORDS, CANDIDATES, *(shard_name(number) for number in range(self.n_shards)))


def shard_name(number: int) -> str:
    """File name of a shard, counted from 0."""
    return f"shard-{number:05d}.arrow"


def parse_layout(table: Any, source: str) -> StoreLayout:
    """The layout that metadata state.

    Raises:
        LibraryError: Of another version of the format.
        DataFileError: Not a layout; the message names the source and the field.
    """
    version = table.get("format_version") if isinstance(table, dict) else None
    if version != STORE_FORMAT_VERSION:
        raise LibraryError(
            f"{source}: its store has format version {version!r}, this version of scenario-lib reads "
            f"{STORE_FORMAT_VERSION}; use the version that wrote it to convert it to the contract's two files"
        )
    return parse_as(StoreLayout, table, f"{source}: {STORE}")


FORMAT_VERSION = 2
"""Raised when a change of the files would make older readers misread them."""


METADATA = "metadata.json"


TRACES = "traces.npz"


CANDIDATES = "candidates.parquet"


RESOLVED = "resolved.parquet"


DIGESTS = "digests.json"


BUILD_LOG = "build-log.json"


REPORT = "report.html"


DIGESTED = (METADATA, TRACES, CANDIDATES, RESOLVED)
"""Files that are equal, byte for byte, whenever inputs and versions are; the build log and the page are not listed."""
