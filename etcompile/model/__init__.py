"""The intermediate representation: what a training job is, whatever its kind.

Frontends make these values, intents change them, the backend turns them into Kubernetes
objects; they meet nowhere else. All are frozen; a change is a new value.
"""

from etcompile.model.job import (
    Bounds,
    ClusterAccess,
    ConfigFile,
    ConfigMapVolume,
    EmptyDir,
    Env,
    Gate,
    HostList,
    InitContainer,
    Job,
    Labels,
    Member,
    Mount,
    Origin,
    PodTemplate,
    Port,
    Resident,
    Role,
    RunPolicy,
    SshCredentials,
    Volume,
)
from etcompile.model.scaling import Intent, ScaleIn, ScaleOut
from etcompile.model.settings import PROFILES, Profile, SecretMode, Services, Settings

__all__ = [
    "PROFILES",
    "Bounds",
    "ClusterAccess",
    "ConfigFile",
    "ConfigMapVolume",
    "EmptyDir",
    "Env",
    "Gate",
    "HostList",
    "InitContainer",
    "Intent",
    "Job",
    "Labels",
    "Member",
    "Mount",
    "Origin",
    "PodTemplate",
    "Port",
    "Profile",
    "Resident",
    "Role",
    "RunPolicy",
    "ScaleIn",
    "ScaleOut",
    "SecretMode",
    "Services",
    "Settings",
    "SshCredentials",
    "Volume",
]
