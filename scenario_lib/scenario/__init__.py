"""Settings, profiles and the draws that make a scenario of a seed."""
