"""A request for more or fewer workers to a file in the source tree: `etcompile scale`."""

from etcompile.scaling.scaled_files import Proposal, Request, scaled

__all__ = ["Proposal", "Request", "scaled"]
