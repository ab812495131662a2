"""The commands of `scenario-lib`: each parses its options, calls the library, and prints."""
