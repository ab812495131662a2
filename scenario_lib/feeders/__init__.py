"""What stands still: the feeder, its sites, PV systems and loads, and the experiment on it."""
