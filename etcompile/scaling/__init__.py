"""A request for more or fewer workers to a file in the source tree: `etcompile scale`."""

from etcompile.scaling.scaled_files import Proposal, Way, scaled

__all__ = ["Proposal", "Way", "scaled"]
