"""Apply overlays: what an environment changes of jobs that are written once.

An overlay holds settings, shorthands for what most environments differ in, and patches. They are
applied to the documents of the input, before a frontend sees them, and to the compiled objects. The
package knows no kind of job; the pipeline passes what it needs of one. Runs without overlays do not
import the modules that apply them.
"""

from etcompile.overlays.overlay import *
