"""A request for more or fewer workers to a file in the source tree: `etcompile scale`.

`job_documents` finds a job and its intents, and `scaled_files` compiles the job with a new intent
before it is written. Files that exist are read, and only the job's own is ever written.
"""

from etcompile.scaling.job_documents import Chosen, chosen
from etcompile.scaling.scaled_files import Proposal, in_place, proposal, written

__all__ = ["Chosen", "Proposal", "chosen", "in_place", "proposal", "written"]
