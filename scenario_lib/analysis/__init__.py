"""What is in a library, and how two of them differ: tables, distributions, pairs of records."""
