"""A scenario in, a rollout out, on one of two engines."""
