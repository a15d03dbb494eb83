"""Turn jobs that an operator runs into files for Git, and instructions for the hand-over.

Nothing here knows a kind: everything special to one comes from its frontend, its model and its
rendered objects.
"""

from etcompile.integrations.migrate.migration import Migrated, migrated, written

__all__ = ["Migrated", "migrated", "written"]
