"""The digest of a circuit covers every file that it is made of or reads data from, wherever they lie."""

import hashlib
from pathlib import Path

import pytest

from scenario_lib._parsing import data_dir
from scenario_lib.errors import DataFileError, MissingDataError
from scenario_lib.feeders.circuit_files import circuit_digest, circuit_files, circuit_home

INCLUDES = (
    "Redirect lines.dss",
    "redirect lines.dss  ! the lines",
    "REDIRECT lines.dss!the lines",
    'Redirect "lines.dss"',
    "Redirect 'lines.dss'",
    "Redirect (lines.dss)",
    "Redirect [lines.dss]",
    "Redirect {lines.dss}",
    "  Redirect file=lines.dss",
    "Compile lines.dss",
    "Buscoords lines.dss",
    "LatLongCoords lines.dss",
    "red lines.dss",
    "comp lines.dss",
    "Redirect=lines.dss",
    ".\\lines.dss",
)


@pytest.mark.parametrize("include", INCLUDES)
def test_included_files_are_found(tmp_path: Path, include: str) -> None:
    line = include if not include.startswith(".") else f"Redirect {include}"
    (tmp_path / "main.dss").write_text(f"Clear\nNew Circuit.c\n{line}\nSolve\n", encoding="utf-8")
    (tmp_path / "lines.dss").write_text("New Line.a\n", encoding="utf-8")
    assert circuit_files(tmp_path / "main.dss") == [tmp_path / "main.dss", tmp_path / "lines.dss"]


@pytest.mark.parametrize("line", ["! Redirect lines.dss", "// Redirect lines.dss", "/* x\nRedirect lines.dss\n*/"])
def test_comments_include_nothing(tmp_path: Path, line: str) -> None:
    (tmp_path / "main.dss").write_text(f"New Circuit.c\n{line}\n", encoding="utf-8")
    assert circuit_files(tmp_path / "main.dss") == [tmp_path / "main.dss"]


def nested(folder: Path) -> Path:
    """A circuit whose second file names a third, relative to itself, and one that the first names too."""
    (folder / "parts").mkdir(parents=True)
    (folder / "main.dss").write_text("Redirect parts/lines.dss\nRedirect loads.dss\n", encoding="utf-8")
    (folder / "parts" / "lines.dss").write_text("Redirect codes.dss\nRedirect ../loads.dss\n", encoding="utf-8")
    (folder / "parts" / "codes.dss").write_text("New LineCode.a\n", encoding="utf-8")
    (folder / "loads.dss").write_text("New Load.a\n", encoding="utf-8")
    return folder / "main.dss"


def test_files_include_files_and_some_twice(tmp_path: Path) -> None:
    names = [str(path.relative_to(tmp_path)) for path in circuit_files(nested(tmp_path))]
    assert names == ["main.dss", "parts/lines.dss", "loads.dss", "parts/codes.dss"]


def test_a_missing_file_is_named_with_who_needs_it(tmp_path: Path) -> None:
    main = nested(tmp_path)
    (tmp_path / "loads.dss").unlink()
    with pytest.raises(MissingDataError, match=r"loads\.dss: no such file, but the circuit .*main\.dss needs it"):
        circuit_digest(main)
    with pytest.raises(MissingDataError, match=r"nowhere\.dss"):
        circuit_files(tmp_path / "nowhere.dss")


def test_digest_of_one_file_is_that_of_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "main.dss").write_bytes(b"New Circuit.c\r\n")
    assert circuit_digest(tmp_path / "main.dss") == hashlib.sha256(b"New Circuit.c\r\n").hexdigest()


def test_digest_depends_on_every_file_and_not_on_the_place(tmp_path: Path) -> None:
    here, there = nested(tmp_path / "here"), nested(tmp_path / "there")
    digest = circuit_digest(here)
    assert circuit_digest(there) == digest
    for path in circuit_files(there):
        before = path.read_text(encoding="utf-8")
        path.write_text(before + "! a remark\n", encoding="utf-8")
        assert circuit_digest(there) != digest
        path.write_text(before, encoding="utf-8")
    assert circuit_digest(there) == digest


DATA = (
    "New Loadshape.s npts=3 interval=1 csvfile=shape.csv",
    "New Loadshape.s npts=3 interval=1 CSV = shape.csv",
    "New Loadshape.s npts=3 cs=shape.csv",
    "New Loadshape.s npts=3 pqcsvfile=shape.csv",
    "New Loadshape.s npts=3 sngfile=shape.csv",
    "New Loadshape.s npts=3 dblfile='shape.csv'",
    "New Loadshape.s npts=3 mult=(file=shape.csv)",
    "New Loadshape.s npts=3 mult=[File=shape.csv, col=1, header=yes]",
    'New Loadshape.s npts=3 mult="file=shape.csv"',
    'New Loadshape.s npts=3 mult=(file="shape.csv") qmult=(file="shape.csv")',
    "New Loadshape.s npts=3\n~ mult=(file=shape.csv)",
    "New XYcurve.x npts=3 csvfile=.\\shape.csv",
    "New Spectrum.x csvfile={shape.csv}  ! the spectrum",
)


@pytest.mark.parametrize("statement", DATA)
def test_data_files_are_found_and_in_the_digest(tmp_path: Path, statement: str) -> None:
    main, data = tmp_path / "main.dss", tmp_path / "shape.csv"
    main.write_text(f"New Circuit.c\n{statement}\n", encoding="utf-8")
    data.write_text("0.25\nRedirect nowhere.dss\nfile=nowhere.csv\n", encoding="utf-8")
    assert circuit_files(main) == [main, data]
    before = circuit_digest(main)
    data.write_text("0.5\n", encoding="utf-8")
    assert circuit_digest(main) != before
    data.unlink()
    with pytest.raises(MissingDataError, match=r"shape\.csv: no such file, but the circuit .*main\.dss needs it"):
        circuit_digest(main)


@pytest.mark.parametrize(
    "statement",
    [
        "! New Loadshape.s csvfile=shape.csv",
        "// New Loadshape.s csvfile=shape.csv",
        "New Loadshape.s npts=1 mult=(1)  ! was mult=(file=shape.csv)",
        "Export Voltages file=shape.csv",
        "Save Circuit file=shape.csv",
        "New Loadshape.profile mult=(0.5 0.7)",
    ],
)
def test_what_is_no_data_file_is_left_out(tmp_path: Path, statement: str) -> None:
    (tmp_path / "main.dss").write_text(f"New Circuit.c\n{statement}\n", encoding="utf-8")
    assert circuit_files(tmp_path / "main.dss") == [tmp_path / "main.dss"]


# SHA-256 of the shipped circuits as they were published with the first libraries.
SHIPPED = {
    "ieee13": "6a00a3077d9157ef56f2dcb62255a968da1ab15f9d473fab8f8898e18d33140c",
    "ieee34": "69f499532b93b22254b5b109896d0ea3076111b29d26598142b6ff076bff52cc",
    "ieee123": "687da2f8e07983fccadbe7b020370b6c64e2cee554f3e4993410375a0b094a90",
}


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_circuits_keep_their_digests(name: str) -> None:
    """Every library names them; a change here is a change of data, to be told to users."""
    assert circuit_digest(data_dir() / "feeders" / name / f"{name}.dss") == SHIPPED[name]


CYCLES = {
    "itself": {"main.dss": "Redirect main.dss"},
    "itself by compile": {"main.dss": "Compile main.dss"},
    "itself in short": {"main.dss": "red MAIN/../main.dss", "MAIN/x.dss": ""},
    "another way to itself": {"main.dss": "Redirect parts/../main.dss", "parts/x.dss": ""},
    "two": {"main.dss": "Redirect a.dss", "a.dss": "Redirect main.dss"},
    "behind the first": {"main.dss": "Redirect a.dss", "a.dss": "Redirect b.dss", "b.dss": "Compile a.dss"},
    "long": {"main.dss": "Redirect 0.dss", **{f"{i}.dss": f"Redirect {(i + 1) % 50}.dss" for i in range(50)}},
}


def written(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{text}\n", encoding="utf-8")
    return folder / "main.dss"


@pytest.mark.parametrize("kind", CYCLES)
def test_a_circuit_that_includes_itself_is_refused(tmp_path: Path, kind: str) -> None:
    with pytest.raises(DataFileError, match=r"\.dss: it includes itself, .*; take one redirect out"):
        circuit_files(written(tmp_path, CYCLES[kind]))


ELSEWHERE = ("Redirect ../out.dss", "New LoadShape.s csvfile=../out.dss", "Buscoords ..\\out.dss", "Redirect {out}")


@pytest.mark.parametrize("line", [*ELSEWHERE, "Redirect ../shared/out.dss"])
def test_a_file_beside_the_folder_is_part_of_the_circuit(tmp_path: Path, line: str) -> None:
    """Public collections keep the line codes of several feeders one folder up."""
    out = tmp_path / ("shared/out.dss" if "shared" in line else "out.dss")
    out.parent.mkdir(exist_ok=True)
    out.write_text("! elsewhere\n", encoding="utf-8")
    main = written(tmp_path / "feeder", {"main.dss": line.replace("{out}", str(out))})
    assert circuit_files(main) == [main, out]
    before = circuit_digest(main)
    out.write_text("! otherwise\n", encoding="utf-8")
    assert circuit_digest(main) != before


@pytest.mark.parametrize("line", [line.replace("..", "../..", 1) for line in ELSEWHERE])
def test_a_file_further_away_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "out.dss").write_text("! elsewhere\n", encoding="utf-8")
    main = written(tmp_path / "grid/feeder", {"main.dss": line.replace("{out}", str(tmp_path / "out.dss"))})
    with pytest.raises(DataFileError, match=r"main\.dss: it includes .*out\.dss, which is outside .*grid, .*copy"):
        circuit_files(main)


def test_a_link_to_a_file_further_away_is_outside(tmp_path: Path) -> None:
    (tmp_path / "out.dss").write_text("! elsewhere\n", encoding="utf-8")
    main = written(tmp_path / "grid/feeder", {"main.dss": "Redirect in.dss"})
    main.with_name("in.dss").symlink_to(tmp_path / "out.dss")
    with pytest.raises(DataFileError, match="which is outside"):
        circuit_files(main)


def test_the_root_is_no_folder_of_a_collection() -> None:
    """Else a circuit in a folder of the root could read every file of the machine."""
    assert circuit_home(Path("/feeder/main.dss")) == Path("/feeder")
    assert circuit_home(Path("/grids/feeder/main.dss")) == Path("/grids")
