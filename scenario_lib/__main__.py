"""`python -m scenario_lib` is the command line `scenario-lib`."""

from importlib import import_module

if __name__ == "__main__":
    # By name, because the folder of the command line becomes part of this package only when it is installed.
    import_module("scenario_lib.pipelines.cli").main()
