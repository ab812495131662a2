"""Data that ships with scenario-lib: feeders, models, power traces, recipes. See README.md beside this file."""
