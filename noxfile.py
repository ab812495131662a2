"""The tests that say whether figures are the same, under other versions of Python and of what is installed.

    nox                  # all sessions below
    nox -s lowest        # one

`nox -s cluster` runs the tests of clusters, with Dask and with Ray; CI has Dask alone: run it before a release.

Each session of the others also measures scenarios and traces, and prints how they compare with those of the first one,
which has the pinned versions. A session whose Python is not on this machine is skipped, with a notice.
"""

import re
import tomllib
from pathlib import Path

import nox

nox.options.default_venv_backend = "venv"
nox.options.sessions = ["pinned", "numpy_oldest", "lowest", "newest"]

MEASURED = Path(".nox") / "measured"
PARTS = (
    "tests/scenario",
    "tests/library",
    "tests/feeders",
    "tests/metrics",
    "tests/simulation/test_golden_rollouts.py",
    "tests/simulation/compiled/test_agreement.py",
    "tests/env/test_golden_episodes.py",
)


@nox.session(python=["3.11", "3.12", "3.13"])
def pinned(session: nox.Session) -> None:
    """The versions of constraints.txt."""
    _check(session, "--constraint", "constraints.txt")


@nox.session(python="3.12")
def numpy_oldest(session: nox.Session) -> None:
    """The versions of constraints.txt, but for the oldest numpy that is allowed."""
    pins = [line for line in Path("constraints.txt").read_text().splitlines() if not line.startswith("numpy==")]
    _check(session, "--constraint", _constraints(session, [*pins, *_lowest("numpy")]))


@nox.session(python="3.11")
def lowest(session: nox.Session) -> None:
    """The lower bound of every direct dependency, together; what these depend on is as new as they allow."""
    _check(session, "--constraint", _constraints(session, _lowest()))


@nox.session(python="3.13")
def newest(session: nox.Session) -> None:
    """Whatever is newest."""
    _check(session)


@nox.session(python="3.12")
@nox.parametrize("kind", ["dask", "ray"], ids=["dask", "ray"])
def cluster(session: nox.Session, kind: str) -> None:
    """Tasks and builds on a cluster of this machine: started, grown, workers killed, bytes compared."""
    session.install("--constraint", "constraints.txt", "--editable", f".[test,{kind}]")
    parts = {"dask": "tests/screening/test_cluster_builds.py", "ray": "tests/screening/test_ray_builds.py"}
    session.run("python", "-m", "pytest", *(session.posargs or (f"tests/execution/test_{kind}.py", parts[kind])))


def _check(session: nox.Session, *options: str) -> None:
    session.install(*options, "--editable", ".[test]")
    session.run("python", "-m", "pytest", *(session.posargs or PARTS))
    program, own = "benchmarks/across_versions.py", str(MEASURED / f"{session.name}.npz")
    session.run("python", program, "measure", own)
    first = min(map(str, MEASURED.glob("pinned-*.npz")), default=own)
    session.run("python", program, "compare", first, own)


def _constraints(session: nox.Session, lines: list[str]) -> str:
    path = Path(session.create_tmp()) / "constraints.txt"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def _lowest(*names: str) -> list[str]:
    """Lower bounds of pyproject.toml as constraints: `numpy>=2.0` becomes `numpy==2.0.*`."""
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    bounds = [re.match(r"([\w-]+)(?:\[\w+\])?>=([\w.]+)", text) for text in project["dependencies"]]
    found = {match[1]: match[2] for match in bounds if match}
    # A bound on a post-release is a version of its own.
    return [
        f"{name}=={bound}" if "post" in bound else f"{name}=={bound}.*"
        for name, bound in found.items()
        if not names or name in names
    ]
