"""The reference engine's parts: openg2g's grid and datacenters, and OpenDSS on a user's circuit."""
