"""What runs every night: build, validate, compare, publish, and where nights lie."""
