"""The trace file: numpy's layout, equal bytes, read one at a time, and never wrong without saying so."""

import io
import pickle
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from scenario_lib.errors import LibraryError
from scenario_lib.library.npz_store import TraceFile, trace_digest, write_traces

RNG = np.random.default_rng(5)
PAIRS = [(RNG.random(3600), RNG.random(3600)) for _ in range(2)]
NAMES = ("ofo_0", "baseline_0", "ofo_1", "baseline_1")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_traces(tmp_path / "traces.npz", PAIRS)
    return tmp_path / "traces.npz"


def npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def archive(path: Path, members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as target:
        for name, content in members.items():
            target.writestr(zipfile.ZipInfo(name), content, compression)
    return path


def error_of(path: Path, name: str = "ofo_0", digest: str | None = None) -> str:
    with pytest.raises(LibraryError) as caught:
        TraceFile(path).read(name, digest)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    return message


def test_traces_come_back_exactly(path: Path) -> None:
    for index, (baseline, ofo) in enumerate(PAIRS):
        for name, trace in (("ofo", ofo), ("baseline", baseline)):
            read = TraceFile(path).read(f"{name}_{index}", trace_digest(trace))
            assert read.dtype == np.float64
            assert np.array_equal(read, trace)


def test_numpy_reads_what_we_write(path: Path) -> None:
    with np.load(path, allow_pickle=False) as loaded:
        assert tuple(loaded) == NAMES
        assert np.array_equal(loaded["ofo_1"], PAIRS[1][1])


def test_what_numpy_writes_is_read(tmp_path: Path) -> None:
    for number, save in enumerate((np.savez, np.savez_compressed)):
        save(tmp_path / f"{number}.npz", ofo_0=PAIRS[0][1], baseline_0=PAIRS[0][0])
        assert np.array_equal(TraceFile(tmp_path / f"{number}.npz").read("baseline_0", None), PAIRS[0][0])


def test_the_file_is_that_of_savez_and_has_no_date(path: Path, tmp_path: Path) -> None:
    write_traces(tmp_path / "again.npz", iter(PAIRS))
    assert (tmp_path / "again.npz").read_bytes() == path.read_bytes()
    with zipfile.ZipFile(path) as ours:
        for member in ours.infolist():
            assert member.date_time == (1980, 1, 1, 0, 0, 0)
            assert member.compress_type == zipfile.ZIP_STORED


def test_no_records_no_traces(tmp_path: Path) -> None:
    write_traces(tmp_path / "traces.npz", [])
    with np.load(tmp_path / "traces.npz") as loaded:
        assert list(loaded) == []


def test_a_failing_source_leaves_no_file(tmp_path: Path) -> None:
    def pairs():
        yield PAIRS[0]
        raise RuntimeError("the journal is gone")

    with pytest.raises(RuntimeError, match="the journal is gone"):
        write_traces(tmp_path / "traces.npz", pairs())
    assert list(tmp_path.iterdir()) == []


def test_the_digest_is_of_little_endian_doubles() -> None:
    assert trace_digest(np.array([1.0, -0.5])) == trace_digest(np.array([1.0, -0.5], dtype=">f8"))
    # SHA-256 of the sixteen bytes of 1.0 and 2.0, computed with sha256sum.
    assert trace_digest(np.array([1.0, 2.0])) == "dc91ce9a50ddc828740aa26743716897fdb2bb64f1db662fe263a59be56145ae"


def test_another_trace_than_the_screened_one_is_refused(path: Path) -> None:
    message = error_of(path, "ofo_0", trace_digest(PAIRS[1][1]))
    assert "trace ofo_0 is not the one that was screened" in message
    assert "validate" in message


def test_a_missing_trace_or_file_is_named(path: Path, tmp_path: Path) -> None:
    assert "no trace ofo_2" in error_of(path, "ofo_2")
    assert "no trace ../ofo_0" in error_of(path, "../ofo_0")
    assert "cannot be read" in error_of(tmp_path / "absent.npz")


@pytest.mark.parametrize("keep", [0, 1, 100, 40_000, -1])
def test_a_truncated_file_is_refused(path: Path, keep: int) -> None:
    path.write_bytes(path.read_bytes()[:keep])
    assert "the library is damaged" in error_of(path)


def test_not_a_zip_file(path: Path) -> None:
    path.write_bytes(b"these are not traces" * 100)
    assert "the library is damaged" in error_of(path)


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (np.zeros(3600, np.float32), "found float32 of shape (3600,)"),
        (np.zeros((60, 60)), "found float64 of shape (60, 60)"),
        (np.array(1.0), "found float64 of shape ()"),
        (np.zeros(3600, ">f8"), "found >f8 of shape (3600,)"),
        (np.zeros(0, [("a", "f8")]), "expected a float64 array"),
    ],
)
def test_another_kind_of_array_is_refused(tmp_path: Path, array: np.ndarray, text: str) -> None:
    assert text in error_of(archive(tmp_path / "t.npz", {"ofo_0.npy": npy(array)}))


def test_a_pickle_is_never_loaded(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self):
            return (pytest.fail, ("the pickle was loaded",))

    stream = io.BytesIO()
    np.save(stream, np.array([Trap()], dtype=object), allow_pickle=True)
    error_of(archive(tmp_path / "t.npz", {"ofo_0.npy": stream.getvalue()}))
    error_of(archive(tmp_path / "u.npz", {"ofo_0.npy": pickle.dumps(Trap())}))


def test_a_header_that_promises_more_than_there_is_allocates_nothing(tmp_path: Path) -> None:
    honest = npy(np.zeros(3600))
    lying = honest.replace(b"(3600,)", b"(9**9,)").replace(b"9**9", b"9999")
    assert "found float64 of shape (9999,)" in error_of(archive(tmp_path / "t.npz", {"ofo_0.npy": lying}))


def test_a_zip_bomb_is_not_unpacked(tmp_path: Path) -> None:
    bomb = archive(tmp_path / "t.npz", {"ofo_0.npy": npy(np.zeros(1_000_000))}, zipfile.ZIP_DEFLATED)
    assert bomb.stat().st_size < 1_000_000
    message = error_of(bomb)
    assert "it claims 8000128 bytes" in message


def test_a_zip_bomb_that_lies_about_its_size_is_not_unpacked(tmp_path: Path) -> None:
    path = archive(tmp_path / "t.npz", {"ofo_0.npy": npy(np.zeros(1_000_000))}, zipfile.ZIP_DEFLATED)
    content = path.read_bytes()
    path.write_bytes(content.replace(struct.pack("<L", 8_000_128), struct.pack("<L", 28_928)))
    assert "cannot be read" in error_of(path)


def test_members_with_odd_names_are_never_written_anywhere(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    members = {"../escaped.npy": npy(np.zeros(2)), "/tmp/escaped.npy": npy(np.zeros(2)), "ofo_0.npy": npy(np.ones(2))}
    assert TraceFile(archive(inside / "t.npz", members)).read("ofo_0", None).tolist() == [1.0, 1.0]
    assert [path.name for path in tmp_path.rglob("*")] == ["inside", "t.npz"]


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_flipped_byte_anywhere_is_an_error_or_harmless(tmp_path: Path, compression: int) -> None:
    """With digests, a damaged file gives the trace that was screened or one line; never another trace or a crash."""
    trace = np.repeat(np.random.default_rng(1).random(20), 5)
    path = archive(tmp_path / "t.npz", {"ofo_0.npy": npy(trace)}, compression)
    whole = path.read_bytes()
    refused = 0
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 0xFF
        path.write_bytes(damaged)
        try:
            assert np.array_equal(TraceFile(path).read("ofo_0", trace_digest(trace)), trace)
        except LibraryError as error:
            refused += 1
            assert "\n" not in str(error)
    assert refused > len(whole) / 2


@pytest.mark.filterwarnings("ignore:invalid escape sequence")  # Python's, on reading such a header
def test_random_headers_are_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    whole = npy(np.zeros(4))
    headers = [b"{", b"(" * 118, b"'" * 118, b"\\" * 118, b"{'descr': '<f8', 'shape': (4,)}", b"[" * 59 + b"]" * 59]
    headers += [bytes(rng.integers(32, 127, 118, dtype=np.uint8)) for _ in range(300)]
    for header in headers:
        content = whole[:10] + header.ljust(118)[:118] + whole[128:]
        error_of(archive(tmp_path / "t.npz", {"ofo_0.npy": content}))


def test_a_file_replaced_after_opening_is_noticed(path: Path) -> None:
    reader = TraceFile(path)
    reader.read("ofo_0", trace_digest(PAIRS[0][1]))
    content = bytearray(path.read_bytes())
    content[2000] ^= 1
    with path.open("r+b") as stream:
        stream.write(content)
    with pytest.raises(LibraryError, match="the library"):
        reader.read("ofo_0", trace_digest(PAIRS[0][1]))
