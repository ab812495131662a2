"""The compiled engine, which emulates OpenDSS step for step in machine code."""
