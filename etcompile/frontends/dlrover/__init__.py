"""The kinds of DLRover."""
