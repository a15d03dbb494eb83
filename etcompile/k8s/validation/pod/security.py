"""Security contexts of Pods and containers (ValidateSecurityContext, validateWindows, sysctls)."""

import re
from collections.abc import Iterator
from typing import Any

from etcompile.k8s.names import is_subdomain
from etcompile.k8s.validation import forms
from etcompile.k8s.validation.pod.places import CONTAINER, Value, containers, on_windows, spec_of
from etcompile.k8s.validation.rule import Broken, Path, Rule, Subject

_OWN = f"{CONTAINER}.securityContext"
_POD = "spec.securityContext"

_SYSCTL = r"(?a)([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_NETBIOS = r"[^\\/:*?\"<>|.][^\\/:*?\"<>|]{0,14}"
_DNS = r"(?a)[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_BAD_USER = r"[\"/\\:;|=,+*?<>@\[\]]"
_MOST_SPEC_BYTES = 64 * 1024

_LINUX_OF_PODS = (
    *("appArmorProfile", "seLinuxOptions", "seccompProfile", "fsGroup", "fsGroupChangePolicy"),
    *("sysctls", "runAsUser", "runAsGroup", "supplementalGroups", "supplementalGroupsPolicy"),
    "seLinuxChangePolicy",
)
_LINUX_OF_CONTAINERS = (
    *("appArmorProfile", "seLinuxOptions", "seccompProfile", "capabilities", "procMount"),
    *("readOnlyRootFilesystem", "privileged", "allowPrivilegeEscalation", "runAsUser"),
    "runAsGroup",
)
_LINUX_OF_SPEC = ("hostUsers", "hostPID", "hostIPC", "shareProcessNamespace", "resources")


def _on_linux(spec: Any) -> bool:
    return forms.mapping(spec, "os").get("name") == "linux"


# Profiles ---------------------------------------------------------------------------------------


def _no_file(profile: Value, _: Subject) -> bool:
    return profile.get("type") == "Localhost" and not profile.get("localhostProfile")


def _no_seccomp_file(profile: Value, _: Subject) -> bool:
    return profile.get("type") == "Localhost" and profile.get("localhostProfile") is None


def _needless_file(profile: Value, _: Subject) -> Iterator[Broken]:
    other = profile.get("type") in ("RuntimeDefault", "Unconfined")
    if other and profile.get("localhostProfile") is not None:
        yield Broken(("localhostProfile",), at_key=True)


def _unlike_annotation(spec: Value, subject: Subject) -> Iterator[Broken]:
    """An old annotation that says something else than the field."""
    annotations = forms.mapping(subject.value, "metadata", "annotations")
    if not annotations or on_windows(spec):
        return
    for at, container in containers(spec):
        own = forms.mapping(container, "securityContext", "appArmorProfile")
        profile = own or forms.mapping(spec, "securityContext", "appArmorProfile")
        key = f"container.apparmor.security.beta.kubernetes.io/{container.get('name')}"
        if profile and key in annotations and annotations[key] != _written(profile):
            path: Path = ("securityContext", "appArmorProfile")
            yield Broken((*at, *path) if own else path, {"annotation": key})


def _unlike_seccomp(spec: Value, subject: Subject) -> Iterator[Broken]:
    annotations = forms.mapping(subject.value, "metadata", "annotations")
    if not annotations:
        return
    path: Path = ("securityContext", "seccompProfile")
    of_containers = (
        (
            (*at, *path),
            f"container.seccomp.security.alpha.kubernetes.io/{container.get('name')}",
            container,
        )
        for at, container in containers(spec)
    )
    whole = (path, "seccomp.security.alpha.kubernetes.io/pod", spec)
    for at, key, owner in (whole, *of_containers):
        profile = forms.mapping(owner, "securityContext", "seccompProfile")
        said = annotations.get(key)
        same = said == _written(profile) or (
            profile.get("type") == "RuntimeDefault" and said == "docker/default"
        )
        if profile and said is not None and not same:
            yield Broken(at, {"annotation": key})


def _written(profile: Value) -> str | None:
    """A profile as the old annotations have it."""
    names = {"Unconfined": "unconfined", "RuntimeDefault": "runtime/default"}
    if profile.get("type") == "Localhost":
        return f"localhost/{profile.get('localhostProfile')}"
    return names.get(str(profile.get("type")))


# Linux ------------------------------------------------------------------------------------------


def _escalation(context: Value, _: Subject) -> bool:
    return context.get("allowPrivilegeEscalation") is False and context.get("privileged") is True


def _escalating_capability(context: Value, _: Subject) -> Iterator[Broken]:
    if context.get("allowPrivilegeEscalation") is False:
        for index, name in forms.texts(context.get("capabilities"), "add"):
            if name == "CAP_SYS_ADMIN":
                yield Broken(("capabilities", "add", index))


def _unmasked(context: Value, subject: Subject) -> Iterator[Broken]:
    if context.get("procMount") == "Unmasked" and spec_of(subject).get("hostUsers") is not False:
        yield Broken(("procMount",))


def _host_sysctl(spec: Value, _: Subject) -> Iterator[Broken]:
    """Settings of the kernel that belong to the node where the Pod shares its namespaces."""
    for index, sysctl in forms.mappings(spec.get("securityContext"), "sysctls"):
        name = str(sysctl.get("name", "")).replace("/", ".")
        ipc = name.startswith(("kernel.shm", "kernel.msg", "fs.mqueue.")) or name == "kernel.sem"
        field = "hostNetwork" if name.startswith("net.") else "hostIPC" if ipc else ""
        if field and spec.get(field) is True:
            path: Path = ("securityContext", "sysctls", index, "name")
            yield Broken(path, {"field": field})


def _shared_processes(spec: Value, _: Subject) -> Iterator[Broken]:
    if spec.get("shareProcessNamespace") is True and spec.get("hostPID") is True:
        yield Broken(("shareProcessNamespace",), at_key=True)


def _host_users(spec: Value, _: Subject) -> Iterator[Broken]:
    if spec.get("hostUsers") is False:
        for field in ("hostNetwork", "hostPID", "hostIPC"):
            if spec.get(field) is True:
                yield Broken((field,), at_key=True)


def _devices_of_users(spec: Value, _: Subject) -> Iterator[Broken]:
    if spec.get("hostUsers") is False:
        for at, container in containers(spec):
            if container.get("volumeDevices"):
                yield Broken((*at, "volumeDevices"), at_key=True)


# Windows ----------------------------------------------------------------------------------------


def _windows_on_linux(spec: Value, _: Subject) -> Iterator[Broken]:
    if _on_linux(spec):
        for at, owner in (((), spec), *containers(spec)):
            if forms.mapping(owner, "securityContext").get("windowsOptions") is not None:
                yield Broken((*at, "securityContext", "windowsOptions"), at_key=True)


def _linux_on_windows(spec: Value, _: Subject) -> Iterator[Broken]:
    if not on_windows(spec):
        return
    for field in forms.given(spec, _LINUX_OF_SPEC):
        if spec[field] is not False or field in ("hostUsers", "shareProcessNamespace"):
            yield Broken((field,), at_key=True)
    of_pod = forms.mapping(spec, "securityContext")
    for field in forms.given(of_pod, _LINUX_OF_PODS):
        if field != "sysctls" or of_pod[field]:
            yield Broken(("securityContext", field), at_key=True)
    for at, container in containers(spec):
        own = forms.mapping(container, "securityContext")
        for field in forms.given(own, _LINUX_OF_CONTAINERS):
            yield Broken((*at, "securityContext", field), at_key=True)


def _is_user_name(name: str) -> bool:
    domain, slash, user = name.rpartition("\\")
    if (
        not name
        or "\\" in domain
        or any(ord(character) < 32 or ord(character) == 127 for character in name)
    ):
        return False
    known = re.fullmatch(_NETBIOS, domain) or all(
        re.fullmatch(_DNS, part) for part in domain.split(".")
    )
    if slash and (len(domain) >= 256 or not known):
        return False
    return 0 < len(user) <= 104 and not re.search(_BAD_USER, user) and bool(user.strip(". "))


def _host_process(spec: Value, _: Subject) -> Iterator[Broken]:
    if any(host for _, host in _host_processes(spec)) and spec.get("hostNetwork") is not True:
        yield Broken(("hostNetwork",))


def _some_host_processes(spec: Value, _: Subject) -> Iterator[Broken]:
    found = [*_host_processes(spec)]
    if any(host for _, host in found):
        for at, host in found:
            if not host:
                yield Broken((*at, "securityContext", "windowsOptions", "hostProcess"))


def _host_processes(spec: Value) -> Iterator[tuple[Path, bool]]:
    """Whether each container is a process of the node."""
    whole = forms.mapping(spec, "securityContext", "windowsOptions").get("hostProcess")
    for at, container in containers(spec):
        own = forms.mapping(container, "securityContext", "windowsOptions").get("hostProcess")
        yield at, (whole if own is None else own) is True


def _unequal_host_process(spec: Value, _: Subject) -> Iterator[Broken]:
    whole = forms.mapping(spec, "securityContext", "windowsOptions").get("hostProcess")
    for at, container in containers(spec):
        own = forms.mapping(container, "securityContext", "windowsOptions").get("hostProcess")
        if own is not None and whole is not None and own != whole:
            yield Broken((*at, "securityContext", "windowsOptions", "hostProcess"))


# The rows ---------------------------------------------------------------------------------------


def _context(text: str) -> str:
    return f"securityContext: {{{text}}}"


def _profile_rules(at: str) -> tuple[Rule, ...]:
    """The rules for the profiles and Windows options of a Pod or a container."""

    def windows(text: str) -> str:
        return _context(f"windowsOptions: {{{text}}}")

    return (
        Rule(
            f"{at}.seccompProfile",
            _no_seccomp_file,
            "needs 'localhostProfile', because its type is Localhost",
            _context("seccompProfile: {type: Localhost}"),
            _context("seccompProfile: {type: Localhost, localhostProfile: a.json}"),
        ),
        Rule(
            f"{at}.appArmorProfile",
            _no_file,
            "needs 'localhostProfile', because its type is Localhost",
            _context("appArmorProfile: {type: Localhost}"),
            _context("appArmorProfile: {type: Localhost, localhostProfile: a}"),
            since=30,
        ),
        Rule(
            f"{at}.seccompProfile",
            _needless_file,
            "only the type Localhost has a localhostProfile",
            _context("seccompProfile: {type: RuntimeDefault, localhostProfile: a}"),
            _context("seccompProfile: {type: RuntimeDefault}"),
            "remove it, or set type: Localhost",
        ),
        Rule(
            f"{at}.appArmorProfile",
            _needless_file,
            "only the type Localhost has a localhostProfile",
            _context("appArmorProfile: {type: RuntimeDefault, localhostProfile: a}"),
            _context("appArmorProfile: {type: RuntimeDefault}"),
            "remove it, or set type: Localhost",
            since=30,
        ),
        Rule(
            f"{at}.seccompProfile.localhostProfile",
            forms.unless(forms.is_inside),
            "'{value}' is not a path inside the folder of seccomp profiles",
            _context("seccompProfile: {type: Localhost, localhostProfile: /a}"),
            _context("seccompProfile: {type: Localhost, localhostProfile: a}"),
            forms.INSIDE_ADVICE,
            on=str,
        ),
        Rule(
            f"{at}.appArmorProfile.localhostProfile",
            lambda value, _: value != value.strip() or len(value) > 4095,
            "'{value}' begins or ends with a blank, or is too long",
            _context("appArmorProfile: {type: Localhost, localhostProfile: ' a'}"),
            _context("appArmorProfile: {type: Localhost, localhostProfile: 'a'}"),
            on=str,
            since=30,
        ),
        Rule(
            f"{at}.windowsOptions.gmsaCredentialSpecName",
            forms.unless(is_subdomain),
            "'{value}' is not a name",
            windows("gmsaCredentialSpecName: A_b"),
            windows("gmsaCredentialSpecName: a-b"),
            forms.SUBDOMAIN_ADVICE,
            on=str,
        ),
        Rule(
            f"{at}.windowsOptions.gmsaCredentialSpec",
            lambda value, _: not value or len(value.encode(errors="replace")) > _MOST_SPEC_BYTES,
            "must have 1 to 65536 bytes",
            windows("gmsaCredentialSpec: ''"),
            windows("gmsaCredentialSpec: a"),
            on=str,
        ),
        Rule(
            f"{at}.windowsOptions.runAsUserName",
            forms.unless(_is_user_name),
            "'{value}' is not the name of a Windows user",
            windows("runAsUserName: 'a*b'"),
            windows("runAsUserName: 'a b'"),
            on=str,
        ),
    )


_WINDOWS_RULES = (
    Rule(
        "spec",
        _windows_on_linux,
        "a Pod for Linux cannot have it",
        "os: {name: linux}, securityContext: {windowsOptions: {}}",
        "os: {name: linux}, securityContext: {}",
        "remove it",
    ),
    Rule(
        "spec",
        _linux_on_windows,
        "a Pod for Windows cannot have it",
        "os: {name: windows}, securityContext: {runAsUser: 1}",
        "os: {name: windows}",
        "remove it",
    ),
    Rule(
        "spec",
        _host_process,
        "must be true, because a container is a process of the Windows node (hostProcess)",
        "securityContext: {windowsOptions: {hostProcess: true}}",
        "securityContext: {windowsOptions: {hostProcess: true}}, hostNetwork: true",
    ),
    Rule(
        "spec",
        _some_host_processes,
        "must be true, because other containers of this Pod have it",
        "hostNetwork: true, containers: [{name: a, image: a:1}, {name: b, image: a:1,"
        " securityContext: {windowsOptions: {hostProcess: true}}}]",
        "hostNetwork: true, securityContext: {windowsOptions: {hostProcess: true}}",
    ),
    Rule(
        "spec",
        _unequal_host_process,
        "must be what the Pod says, not {value}",
        "hostNetwork: true, securityContext: {windowsOptions: {hostProcess: true}},"
        " containers: [{name: a, image: a:1,"
        " securityContext: {windowsOptions: {hostProcess: false}}}]",
        "hostNetwork: true, securityContext: {windowsOptions: {hostProcess: true}}",
    ),
)

RULES = (
    *_profile_rules(_OWN),
    *_profile_rules(_POD),
    Rule(
        "spec",
        _unlike_annotation,
        "differs from the annotation {annotation}",
        "{annotations: {container.apparmor.security.beta.kubernetes.io/main: unconfined},"
        " containers: [{name: main, image: a:1,"
        " securityContext: {appArmorProfile: {type: RuntimeDefault}}}]}",
        "{annotations: {container.apparmor.security.beta.kubernetes.io/main: unconfined},"
        " containers: [{name: main, image: a:1,"
        " securityContext: {appArmorProfile: {type: Unconfined}}}]}",
        "remove the annotation",
        since=30,
    ),
    Rule(
        "spec",
        _unlike_seccomp,
        "differs from the annotation {annotation}",
        "{annotations: {seccomp.security.alpha.kubernetes.io/pod: unconfined},"
        " securityContext: {seccompProfile: {type: RuntimeDefault}}}",
        "{annotations: {seccomp.security.alpha.kubernetes.io/pod: unconfined},"
        " securityContext: {seccompProfile: {type: Unconfined}}}",
        "remove the annotation",
    ),
    Rule(
        _OWN,
        _escalation,
        "allowPrivilegeEscalation cannot be false for a privileged container",
        _context("allowPrivilegeEscalation: false, privileged: true"),
        _context("allowPrivilegeEscalation: false"),
        "remove one of the two",
    ),
    Rule(
        _OWN,
        _escalating_capability,
        "allowPrivilegeEscalation cannot be false with the capability {value}",
        _context("allowPrivilegeEscalation: false, capabilities: {add: [CAP_SYS_ADMIN]}"),
        _context("allowPrivilegeEscalation: false, capabilities: {add: [IPC_LOCK]}"),
        "remove one of the two",
    ),
    Rule(
        f"{_OWN}.procMount",
        forms.one_of("Default", "Unmasked"),
        "must be Default or Unmasked, not '{value}'",
        _context("procMount: Masked"),
        _context("procMount: Default"),
        on=str,
        since=33,
    ),
    Rule(
        _OWN,
        _unmasked,
        "Unmasked needs hostUsers: false in the spec of the Pod",
        _context("procMount: Unmasked"),
        _context("procMount: Default"),
        since=33,
    ),
    Rule(
        f"{_POD}.sysctls[*].name",
        lambda value, _: len(value) > 253 or not re.fullmatch(_SYSCTL, value),
        "'{value}' is not the name of a sysctl",
        _context("sysctls: [{name: Kernel.a, value: '1'}]"),
        _context("sysctls: [{name: kernel.a, value: '1'}]"),
        on=str,
    ),
    Rule(
        f"{_POD}.sysctls",
        forms.twice(),
        "another sysctl has the name '{value}'",
        _context("sysctls: [{name: a, value: '1'}, {name: a, value: '1'}]"),
        _context("sysctls: [{name: a, value: '1'}]"),
        "remove one of the two",
        on=list,
    ),
    Rule(
        "spec",
        _host_sysctl,
        "'{value}' cannot be set with {field}: true",
        "hostNetwork: true, securityContext: {sysctls: [{name: net.ipv4.a, value: '1'}]}",
        "securityContext: {sysctls: [{name: net.ipv4.a, value: '1'}]}",
        since=30,
    ),
    Rule(
        f"{_POD}.supplementalGroupsPolicy",
        forms.one_of("Merge", "Strict"),
        "must be Merge or Strict, not '{value}'",
        _context("supplementalGroupsPolicy: None"),
        _context("supplementalGroupsPolicy: Merge"),
        on=str,
        since=33,
    ),
    Rule(
        f"{_POD}.seLinuxChangePolicy",
        forms.one_of("Recursive", "MountOption"),
        "must be Recursive or MountOption, not '{value}'",
        _context("seLinuxChangePolicy: Never"),
        _context("seLinuxChangePolicy: Recursive"),
        on=str,
        since=33,
    ),
    Rule(
        f"{_POD}.seLinuxChangePolicy",
        lambda value, _: value == "MountOption",
        "MountOption needs the feature gate SELinuxMount, which is off by default",
        _context("seLinuxChangePolicy: MountOption"),
        _context("seLinuxChangePolicy: Recursive"),
        on=str,
        since=33,
        until=35,
    ),
    Rule(
        "spec",
        _shared_processes,
        "cannot be true together with hostPID",
        "shareProcessNamespace: true, hostPID: true",
        "shareProcessNamespace: true",
        "remove one of the two",
    ),
    Rule(
        "spec",
        _host_users,
        "cannot be true with hostUsers: false",
        "hostUsers: false, hostPID: true",
        "hostUsers: false",
        "remove one of the two",
        since=30,
        until=34,
    ),
    Rule(
        "spec",
        _devices_of_users,
        "block devices need hostUsers: true",
        "hostUsers: false, volumes: [{name: a, persistentVolumeClaim: {claimName: a}}],"
        " containers: [{name: a, image: a:1, volumeDevices: [{name: a, devicePath: /a}]}]",
        "volumes: [{name: a, persistentVolumeClaim: {claimName: a}}],"
        " containers: [{name: a, image: a:1, volumeDevices: [{name: a, devicePath: /a}]}]",
        since=34,
    ),
    *_WINDOWS_RULES,
)
