"""The wheel, built by way of an sdist: everything inside `scenario_lib`, nothing forgotten, and it works elsewhere."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
REPOSITORY = "https://github.com/scenario-lib/scenario-lib"
_LEFT_OUT = shutil.ignore_patterns(".*", "*.egg-info", "__pycache__", "build", "dist", "_build", "libraries")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the sdist and the wheel, built from a copy, with the setuptools that is installed."""
    folder = tmp_path_factory.mktemp("packaging")
    shutil.copytree(ROOT, folder / "source", ignore=_LEFT_OUT)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder / "dist", folder / "source"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "dist"


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (path,) = built.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder that the wheel alone is installed into."""
    target = tmp_path_factory.mktemp("site-packages")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", target, wheel]
    subprocess.run(command, check=True)
    return target


def source_files(folder: str) -> set[str]:
    """Files that belong into the wheel."""
    files = (path for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(ROOT / folder).as_posix() for path in files}


def run_installed(installed: Path, code: str, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, env=environment, cwd=installed.parent, capture_output=True, text=True, check=True)
    return done.stdout


def test_nothing_lands_outside_the_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        top = {name.split("/")[0] for name in archive.namelist()}
    assert {name for name in top if not name.endswith(".dist-info")} == {"scenario_lib"}


def test_every_module_and_data_file_is_inside(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    inside = {name.removeprefix("scenario_lib/") for name in names if name.startswith("scenario_lib/")}
    expected = (
        source_files("scenario_lib")
        | {f"pipelines/{name}" for name in source_files("pipelines")}
        | {f"data/{name}" for name in source_files("data")}
    )
    assert inside == expected
    assert {"py.typed", "pipelines/cli.py", "data/README.md", "data/feeders/ieee123/ieee123.dss"} <= inside
    assert sum(name.endswith("trace.csv") for name in inside) == 5
    assert sum(name.startswith("data/catalogue/") for name in inside) == 4
    assert {Path(name).suffix for name in inside} == {".py", ".typed", ".md", ".toml", ".csv", ".dss", ".json", ".html"}
    assert wheel.stat().st_size < 1_000_000


def test_the_command_and_the_licence_are_declared(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (info,) = {name.split("/")[0] for name in archive.namelist() if ".dist-info/" in name}
        entry_points = archive.read(f"{info}/entry_points.txt").decode()
        described = archive.read(f"{info}/METADATA").decode()
        assert f"{info}/licenses/LICENSE" in archive.namelist()
    assert "scenario-lib = scenario_lib.pipelines.cli:main" in entry_points
    assert "Name: scenario-lib\n" in described
    assert "License-Expression: Apache-2.0\n" in described
    assert "Author: The scenario-lib developers\n" in described
    assert "Classifier: Development Status :: 3 - Alpha\n" in described
    for name in ("Homepage", "Source", "Changelog", "Issues"):
        assert f"Project-URL: {name}, {REPOSITORY}" in described


def test_the_sdist_builds_the_same_wheel_and_has_what_a_reader_needs(built: Path) -> None:
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    expected = {"README.md", "LICENSE", "pyproject.toml", "pipelines/cli.py", "data/recipes/ieee13.toml"}
    expected |= {"ARCHITECTURE.md", "CHANGELOG.md", "constraints.txt", "scripts/test", "scripts/common.sh"}
    for folder in ("tests", "docs", "benchmarks"):
        own = {path for path in source_files(folder) if not path.startswith("_build")}
        expected |= {f"{folder}/{path}" for path in own}
    assert expected <= names


def test_the_installed_package_finds_its_own_data(installed: Path) -> None:
    code = (
        "import scenario_lib; from scenario_lib._parsing import data_dir; "
        "from scenario_lib.feeders.experiment_file import experiment_names, load_experiment; "
        "from scenario_lib.simulation.assets import load_assets; load_assets(load_experiment('ieee13')); "
        "print(scenario_lib.__file__, data_dir(), *experiment_names(), sep='\\n')"
    )
    package, data, *names = run_installed(installed, code).splitlines()
    assert Path(package) == installed / "scenario_lib" / "__init__.py"
    assert Path(data) == installed / "scenario_lib" / "data"
    assert names == ["ieee123", "ieee13", "ieee34"]


def test_the_installed_package_is_a_command_with_the_catalogue(installed: Path) -> None:
    code = "import runpy, sys; sys.argv[0] = 'scenario_lib'; runpy.run_module('scenario_lib', run_name='__main__')"
    printed = run_installed(installed, code, "models", "list", "--gpu", "B200")
    assert printed.splitlines()[-1].startswith("34 models; ")


def test_the_installed_command_draws_the_same_scenario(installed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from scenario_lib.pipelines.cli import main

    with pytest.raises(SystemExit):
        main(["show", "7", "--system", "ieee123"])
    code = "import sys; from scenario_lib.pipelines.cli import main; main(sys.argv[1:])"
    assert run_installed(installed, code, "show", "7", "--system", "ieee123") == capsys.readouterr().out


def test_links_of_the_readme_work_on_a_package_index() -> None:
    links = re.findall(r"\]\(([^)]+)\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    own = [link.removeprefix(f"{REPOSITORY}/blob/main/") for link in links if link.startswith(REPOSITORY)]
    assert len(own) > 10
    assert [link for link in links if not link.startswith("https://")] == []
    assert [path for path in own if not (ROOT / path).is_file()] == []


def pinned() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split("==") for line in lines if not line.startswith("#"))
    return {canonicalize_name(name): version for name, version in pairs}


def required(name: str, extras: frozenset[str], seen: dict[tuple[str, frozenset[str]], str]) -> None:
    """Collect the installed versions of all that a distribution needs on this machine, directly or not."""
    try:
        distribution = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return
    seen[name, extras] = distribution.version
    for text in distribution.requires or ():
        needed = Requirement(text)
        applies = needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in {"", *extras})
        key = (canonicalize_name(needed.name), frozenset(needed.extras))
        if applies and key not in seen:
            required(*key, seen)


def test_the_constraints_name_every_distribution_that_is_needed() -> None:
    extras = frozenset({"plot", "dask", "train", "test", "docs", "dev"})
    seen: dict[tuple[str, frozenset[str]], str] = {}
    required("scenario-lib", extras, seen)
    installed = {name: Version(version).public for (name, _), version in seen.items() if name != "scenario-lib"}
    pins = pinned()
    assert len(installed) > 50
    assert {name: pins.get(name) for name in installed} == installed
