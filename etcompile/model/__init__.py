"""Describe a training job, whatever its kind.

Frontends build these values, intents change them, and the backend turns them into Kubernetes
objects. The values are frozen; a change is a new value.
"""

from etcompile.model.job import *
from etcompile.model.scaling import *
from etcompile.model.schedulers import *
from etcompile.model.settings import *
