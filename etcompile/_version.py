"""The version, in the one place that packaging, `--version` and the writer read it from."""

__version__ = "0.2.0-dev"
IS_RELEASE = "dev" not in __version__
"""Whether packages and images of this version are published (docs/contributing/releasing.md)."""
