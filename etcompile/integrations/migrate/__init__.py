"""A job that an operator runs to files that Git can hold, and the steps from the one to the other.

Nothing here knows a kind: everything special to one comes from its frontend, its model and what it
renders to.
"""

from etcompile.integrations.migrate.migration import Migrated, migrated, written

__all__ = ["Migrated", "migrated", "written"]
