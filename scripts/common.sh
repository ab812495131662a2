# Shared by the scripts beside it: a virtual environment in this folder, with the pinned versions.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

find_python() {
    local candidate
    for candidate in "${PYTHON:-}" python3 python3.13 python3.12 python3.11 python; do
        if [ -n "$candidate" ] && command -v "$candidate" >/dev/null 2>&1 &&
            "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    echo "No Python 3.11 to 3.13 was found. Install one, or name it: PYTHON=/path/to/python $0" >&2
    exit 1
}

# install EXTRAS: what is needed, unless this folder's dependencies are unchanged since the last time.
install() {
    local extras="$1" stamp=".venv/installed$1"
    if [ ! -x .venv/bin/python ]; then
        "$(find_python)" -m venv .venv
    fi
    if [ ! -f "$stamp" ] || [ pyproject.toml -nt "$stamp" ] || [ constraints.txt -nt "$stamp" ]; then
        echo "installing into .venv ..."
        .venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".${extras}"
        touch "$stamp"
    fi
}
