"""Overlays: what an environment changes of jobs that are written once.

An overlay holds settings, conveniences for what most environments differ in, and patches. They
are applied in two places: over the documents of the input, before a frontend sees them, and
over the compiled objects. The package knows no kind of job; the pipeline tells it what it must
know of one. What only a run with overlays needs (`overlay_files`, `overlay_settings`,
`document_patches`, `object_patches`) is imported from its module, then.
"""

from etcompile.overlays.overlay import *
