"""A job that an operator runs to files that Git can hold, and the way from the one to the other.

Everything that is special to a kind comes from its frontend, its model and what it renders to;
nothing here knows a kind. Apart from the compiler, because only somebody who hands over a job
needs to know what a cluster has made of it.
"""

from etcompile.integrations.migrate.files import written
from etcompile.integrations.migrate.migration import Migrated, migrated

__all__ = ["Migrated", "migrated", "written"]
