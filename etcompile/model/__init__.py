"""The intermediate representation: what a training job is, whatever its kind.

Frontends make these values, intents change them, the backend turns them into Kubernetes
objects; they meet nowhere else. All are frozen; a change is a new value.
"""

from etcompile.model.job import *
from etcompile.model.scaling import *
from etcompile.model.schedulers import *
from etcompile.model.settings import *
