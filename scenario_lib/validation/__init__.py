"""Checks that a library is whole and that its records replay, and names the cause where not."""
