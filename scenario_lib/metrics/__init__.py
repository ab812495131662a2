"""Voltages in, numbers out: what lies outside the band, and by how much."""
