"""`scenario-lib` without the seconds that its imports take: each command is a fork of a process that has made them.

That process starts no engine and no thread, so that a fork of it is what a new process would be. Commands run one
after another and see one core, because pages of the documentation run side by side.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SOCKET, _COMMAND = "commands", "scenario-lib"
_CLIENT = f"#!{sys.executable} -IS\nimport runpy, sys\nsys.argv[1:1] = ['ask', {{folder!r}}]\n" + (
    f"runpy.run_path({str(Path(__file__))!r}, run_name='__main__')\n"
)
NO_PAGES = "SCENARIO_LIB_TESTS_NO_PAGES"
"""Set in the environment of a command, it keeps `build` from drawing a page, which takes longer than the build."""


@contextmanager
def preloaded_command(folder: Path) -> Iterator[Path]:
    """A folder whose `scenario-lib` is the preloaded one, as long as the context lasts."""
    command = folder / _COMMAND
    command.write_text(_CLIENT.format(folder=str(folder)), encoding="utf-8")
    command.chmod(0o755)
    with subprocess.Popen([sys.executable, __file__, "serve", str(folder)], cwd="/") as process:
        try:
            _wait_for(folder / _SOCKET, process)
            yield folder
        finally:
            process.kill()


def _wait_for(path: Path, process: subprocess.Popen) -> None:
    until = time.monotonic() + 120
    while not path.exists():
        assert process.poll() is None, "it ended at once"
        assert time.monotonic() < until, "it does not start"
        time.sleep(0.02)


def _serve(folder: str) -> None:
    os.sched_getaffinity = lambda _: {0}
    from scenario_lib.pipelines import build, combine, data, feeder, learn, look, nightly, validate  # noqa: F401

    from scenario_lib.simulation.compiled import episode  # noqa: F401 - loaded with the first rollout

    os.chdir(folder)  # the address of a socket must be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(_SOCKET)
        server.listen()
        while True:
            connection, _ = server.accept()
            request, files, _, _ = socket.recv_fds(connection, 1 << 20, 3)
            child = os.fork()
            if child == 0:
                server.close()
                connection.close()
                _run(json.loads(request), files)
            for file in files:
                os.close(file)
            _, status = os.waitpid(child, 0)
            with contextlib.suppress(OSError), connection:  # who asked may be gone
                connection.send(bytes([os.waitstatus_to_exitcode(status) & 0xFF]))


def _run(request: dict, files: list[int]) -> None:
    for target, file in enumerate(files):
        os.dup2(file, target)
        os.close(file)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    arguments = request["arguments"]
    if arguments[:1] == ["build"] and NO_PAGES in os.environ:
        arguments.append("--no-report")
    sys.argv = [_COMMAND, *arguments]
    from scenario_lib.pipelines.cli import main

    main(arguments)


def _ask(folder: str, arguments: list[str]) -> int:
    request = {"folder": str(Path.cwd()), "environment": dict(os.environ), "arguments": arguments}
    here = os.open(".", os.O_RDONLY)
    os.chdir(folder)
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(_SOCKET)
        os.chdir(here)
        socket.send_fds(server, [json.dumps(request).encode()], [0, 1, 2])
        answer = server.recv(1)
    return answer[0] if answer else 1


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        _serve(sys.argv[2])
    sys.exit(_ask(sys.argv[2], sys.argv[3:]))
