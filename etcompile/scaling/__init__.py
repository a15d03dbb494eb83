"""Scale a job by an edit of the source tree: `etcompile scale`."""

from etcompile.scaling.scaled_files import Proposal, Way, scaled

__all__ = ["Proposal", "Way", "scaled"]
