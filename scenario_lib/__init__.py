"""scenario-lib."""
