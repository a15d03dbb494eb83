"""The version, in the one place that packaging, `--version` and the writer read it from."""

__version__ = "0.2.0"
