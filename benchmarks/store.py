"""The two stores of a library side by side: opening, sampling, memory of one reader and of eight.

    python benchmarks/store.py --sizes 1000 10000 100000 --readers 8 --out store.json

Libraries are synthetic (real draws, made-up penalties) and are deleted at the end; 100 000 records need 8 GB of disk
and some minutes. Memory is what the kernel says of each reader (/proc/<pid>/smaps_rollup, so Linux only): RSS counts a
shared page in every process, PSS divides it among those that share it.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from synthetic_library import write_synthetic_library

from scenario_lib.library.convert import STORES, convert_library

_MEMORY = {"rss": "Rss", "pss": "Pss", "peak": "VmHWM"}
_COLUMNS = (
    "records, store, MB on disk, open s, draw median ms, p99, both traces median ms, p99, RSS of 1 (MB), RSS of each, "
    "PSS of each, peak RSS, PSS of all"
)


@contextmanager
def readers(library: Path, count: int, n_draws: int) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that read one library at the same time."""
    command = [sys.executable, str(Path(__file__).with_name("store_reader.py")), str(library), str(n_draws)]
    started = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(count)
    ]
    try:
        yield started
    finally:
        for process in started:
            process.communicate()


def memory_mb(pid: int) -> dict[str, float]:
    """RSS and PSS of a process now, and its highest RSS so far."""
    lines = [
        *Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:],
        *Path(f"/proc/{pid}/status").read_text().splitlines(),
    ]
    kilobytes = {name: value.split()[0] for name, _, value in (line.partition(":") for line in lines) if "kB" in value}
    return {key: round(int(kilobytes[name]) * 1024 / 1e6, 1) for key, name in _MEMORY.items()}


def reading_figures(library: Path, n_readers: int, n_draws: int) -> dict[str, object]:
    """Times of a reader that is alone, and memory of it and of several together."""
    with readers(library, 1, n_draws) as alone:
        figures = json.loads(_line(alone[0]))
        figures["memory_of_1_mb"] = memory_mb(alone[0].pid)
    with readers(library, n_readers, n_draws) as together:
        for process in together:
            _line(process)
        each = [memory_mb(process.pid) for process in together]
    figures["readers"] = n_readers
    figures["memory_of_each_mb"] = {name: max(memory[name] for memory in each) for name in _MEMORY}
    figures["pss_of_all_mb"] = round(sum(memory["pss"] for memory in each), 1)
    return figures


def _line(process: subprocess.Popen[str]) -> str:
    line = process.stdout.readline() if process.stdout else ""
    if not line:
        raise RuntimeError(f"the reader {process.args} ended without a result")
    return line


def libraries(folder: Path, n_records: int, jobs: int) -> dict[str, Path]:
    """One library in both stores; those that are in the folder already are taken."""
    paths = {store: folder / f"{store}-{n_records}" for store in STORES}
    if not paths["contract"].exists():
        write_synthetic_library(paths["contract"], n_records, jobs)
    if not paths["sharded"].exists():
        started = time.monotonic()
        convert_library(paths["contract"], "sharded", paths["sharded"])
        print(f"converted {n_records} records in {time.monotonic() - started:.0f} s", file=sys.stderr)
    return paths


def row(figures: dict[str, object]) -> str:
    """A line of the table."""
    draw, traces = figures["sample_and_materialize"], figures["both_traces"]
    cells = [figures["records"], figures["store"], figures["disk_mb"], figures["open_s"]]
    cells += [draw["median_ms"], draw["p99_ms"], traces["median_ms"], traces["p99_ms"]]
    cells += [figures["memory_of_1_mb"]["rss"], *figures["memory_of_each_mb"].values(), figures["pss_of_all_mb"]]
    return "| " + " | ".join(map(str, cells)) + " |"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 10_000, 100_000])
    parser.add_argument("--readers", type=int, default=8)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="Where libraries are made, and kept.  [default: deleted]")
    parser.add_argument("--out", type=Path, help="JSON of all figures.")
    arguments = parser.parse_args()
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="scenario-store-"))
    results = []
    print(f"| {_COLUMNS.replace(', ', ' | ')} |\n|{'---|' * len(_COLUMNS.split(', '))}", flush=True)
    try:
        for n_records in arguments.sizes:
            for store, path in libraries(folder, n_records, arguments.jobs).items():
                disk_mb = round(sum(file.stat().st_size for file in path.iterdir()) / 1e6, 1)
                figures = reading_figures(path, arguments.readers, arguments.draws)
                results.append({"records": n_records, "store": store, "disk_mb": disk_mb, **figures})
                print(row(results[-1]), flush=True)
    finally:
        if arguments.folder is None:
            shutil.rmtree(folder)
    if arguments.out:
        arguments.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
