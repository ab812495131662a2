"""How the code is kept: what must not be loaded, and the measures of files, functions and names."""

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

LIBRARY = Path(__file__).parent / "data" / "openg2g_library_ieee13"
SIMULATORS = ("opendssdirect", "dss", "numba", "torch", "matplotlib", "stable_baselines3", "pandas")


def loaded_after(code: str, names: tuple[str, ...]) -> list[str]:
    program = f"{code}\nimport sys\nprint([name for name in {names!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return eval(done.stdout.splitlines()[-1])


def test_opening_and_materialising_loads_no_simulator() -> None:
    code = (
        "from scenario_lib import ScenarioLibrary\n"
        f"library = ScenarioLibrary({str(LIBRARY)!r})\n"
        "scenario = library.materialize(library[0])\n"
        "assert len(library[0].ofo_voltage_pen_per_step) == 3600"
    )
    assert loaded_after(code, SIMULATORS) == []


def test_drawing_a_scenario_loads_no_simulator() -> None:
    code = (
        "from scenario_lib import load_experiment, randomize_scenario\n"
        "assert randomize_scenario(7, experiment=load_experiment('ieee34')).seed == 7"
    )
    assert loaded_after(code, (*SIMULATORS, "openg2g", "pyarrow")) == []


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_help_loads_next_to_nothing(arguments: list[str]) -> None:
    code = (
        "from scenario_lib.pipelines.cli import main\n"
        "try:\n"
        f"    main({arguments!r})\n"
        "except SystemExit as end:\n"
        "    assert end.code == 0"
    )
    assert loaded_after(code, (*SIMULATORS, "openg2g", "pyarrow", "joblib", "pydantic")) == []


@pytest.mark.parametrize("module", ["build", "look"])
def test_pictures_are_loaded_when_they_are_drawn(module: str) -> None:
    assert loaded_after(f"import scenario_lib.pipelines.{module}", ("matplotlib", "jinja2")) == []


def test_every_public_name_exists() -> None:
    import scenario_lib

    assert len(scenario_lib.__all__) > 15
    for name in scenario_lib.__all__:
        assert getattr(scenario_lib, name).__doc__
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = scenario_lib.nothing


ROOT = Path(__file__).parents[1]
FILES = sorted(path for room in ("scenario_lib", "pipelines") for path in (ROOT / room).rglob("*.py"))
TREES = {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in FILES}
MODULES = {path.removesuffix(".py").removesuffix("/__init__").replace("/", "."): path for path in TREES}

OUR_OWN_WORDS = {
    "errand",
    "parcel",
    "feed",
    "leaving",
    "travel",
    "shelf",
    "deal",
    "wayto",
    "ingredients",
    "standing",
    "feeding",
    "who",
    "crew",
    "plant",
    "game",
    "stage",
    "world",
    "fleet",
    "hull",
    "proof",
    "lacking",
}
"""Words that say nothing to a reader from the field; `docs/glossary.md` has those that do."""

FULLEST_FOLDERS = {"scenario_lib/library": 18}
LONGEST_FILES: dict[str, int] = {}
"""What is beyond the measures below, and may only shrink."""

SIGNATURES_OF_THE_CONTRACT = {
    "BatchSizeEnv.__init__",
    "SharedBatchSizeEnv.__init__",
    "ObservationConfig.from_model_specs",
    "ObservationConfig.from_multi_site",
    "compute_reward",
    "make_batch_size_vector_env",
}
"""They have the arguments of openg2g's own, or of these and one more."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function]]:
    """All functions below a node, with the classes they stand in."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function):
            yield prefix + child.name, child
        yield from functions(child, f"{prefix}{child.name}." if isinstance(child, ast.ClassDef) else prefix)


def is_kernel(function: Function) -> bool:
    return any(re.search("kernel|intrinsic|njit", ast.unparse(decorator)) for decorator in function.decorator_list)


def n_arguments(function: Function) -> int:
    given = function.args
    names = [argument.arg for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")])


def imported(module: str, tree: ast.AST) -> set[str]:
    """Modules of this project that a file loads, at the top or in a function; not those for the type checker only."""
    found = set()
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = f"{module.rpartition('.')[0]}.{node.module}" if node.level else str(node.module)
            found |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
        else:
            found |= imported(module, node)
    return (found & MODULES.keys()) - {module}


def test_no_file_imports_itself_by_way_of_others() -> None:
    TopologicalSorter({module: imported(module, TREES[path]) for module, path in MODULES.items()}).prepare()


def test_no_two_classes_have_one_name() -> None:
    names = Counter(node.name for tree in TREES.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    assert [name for name, count in names.items() if count > 1] == []


def test_names_are_the_fields_words() -> None:
    named = [(path, path.rpartition("/")[2].removesuffix(".py")) for path in TREES]
    for path, tree in TREES.items():
        named += [(path, node.name) for node in ast.walk(tree) if isinstance(node, ast.ClassDef | Function)]
    assert [pair for pair in named if pair[1].replace("_", "").lower() in OUR_OWN_WORDS] == []


def test_folders_have_few_files() -> None:
    files = Counter(path.rpartition("/")[0] for path in TREES if not path.endswith("/__init__.py"))
    assert {folder: n for folder, n in files.items() if n > FULLEST_FOLDERS.get(folder, 16)} == {}


def test_files_are_short_and_say_what_is_in_them() -> None:
    lines = {path: len((ROOT / path).read_text(encoding="utf-8").splitlines()) for path in TREES}
    assert {path: n for path, n in lines.items() if n > LONGEST_FILES.get(path, 450)} == {}
    assert [path for path, tree in TREES.items() if not ast.get_docstring(tree)] == []


def test_functions_are_short_and_take_few_arguments() -> None:
    found = [(path, name, function) for path, tree in TREES.items() for name, function in functions(tree)]
    assert [(path, name) for path, name, f in found if f.end_lineno - f.lineno + 1 > 60] == []
    many = {(path, name) for path, name, f in found if n_arguments(f) > 6 and not is_kernel(f)}
    assert {(path, name) for path, name in many if name not in SIGNATURES_OF_THE_CONTRACT} == set()


def test_the_newcomers_tour_leads_to_what_it_names() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    stops = re.findall(r"^\| \d+ \| `([^`]+)` \| `(\w+)` \|", text, re.MULTILINE)
    assert 10 < len({path for path, _ in stops}) <= 18
    for path, name in stops:
        assert name in {node.name for node in TREES[path].body if isinstance(node, ast.ClassDef | Function)}, path


INTERNALS = "scenario_lib/simulation/opendss/openg2g_internals.py"


def names_private_to_openg2g() -> set[str]:
    """Attributes with one leading underscore that openg2g's classes set or define."""
    import openg2g

    found = set()
    for path in Path(openg2g.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found |= {part.name for part in node.body if isinstance(part, Function)}
            elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self":
                found.add(node.attr)
    return {name for name in found if re.match("_[^_]", name)}


def private_reads(tree: ast.AST) -> Iterator[str]:
    """Private attributes that a file takes of something other than its own objects."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) not in ("self", "cls"):
            yield node.attr


def test_the_insides_of_openg2g_are_touched_in_one_file() -> None:
    private = names_private_to_openg2g()
    assert {"_dc_attachments", "_cache_regcontrol_map", "_pool", "_case_dir"} <= private
    assert private & set(private_reads(TREES[INTERNALS]))
    found = {
        f"{path}: {name}"
        for path, tree in TREES.items()
        if path != INTERNALS and "openg2g" in ast.unparse(tree)
        for name in private & set(private_reads(tree))
    }
    assert not found
    subclasses = [
        f"{path}: {node.name}({base})"
        for path, tree in TREES.items()
        if path != INTERNALS
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for base in map(ast.unparse, node.bases)
        if base in ("OpenDSSGrid", "OfflineDatacenter", "ServerPool", "BusVoltages")
    ]
    assert not subclasses


def test_the_list_of_slow_tests_names_tests_that_are_there() -> None:
    entries = (ROOT / "tests" / "slow_tests.txt").read_text(encoding="utf-8").splitlines()[1:]
    assert len(entries) == len(set(entries)) > 50
    for entry in entries:
        file, _, name = entry.partition("::")
        assert name == "*" or f"def {name}(" in (ROOT / file).read_text(encoding="utf-8"), entry


def test_processes_that_tests_start_can_be_interrupted_and_share_a_temporary_folder() -> None:
    interruptible = "signal.getsignal(signal.SIGINT) is signal.default_int_handler"
    code = f"import signal, tempfile; print({interruptible}, tempfile.gettempdir())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    answer, folder = done.stdout.split()
    assert answer == "True"
    assert Path(folder).name.startswith("scenario-lib-tests-")
