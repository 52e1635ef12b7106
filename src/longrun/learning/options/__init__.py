"""The options of the algorithms."""
