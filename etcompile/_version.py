"""Define the version, which packaging, `--version` and the writer read from here."""

__version__ = "0.2.0-dev"
IS_RELEASE = "dev" not in __version__
"""Whether packages and images of this version are published (docs/contributing/releasing.md)."""
