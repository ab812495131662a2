"""Many small tasks, none lost, in processes of this machine or on a cluster."""
