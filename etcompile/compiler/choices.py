"""What a program that embeds the compiler has chosen, checked before anything is compiled.

The command line checks its options where they are read; a program, a plugin or the configuration
of a KRM function can hand over anything. Apart from reading the input, which these choices are
about.
"""

from collections.abc import Iterator
from typing import get_args

from etcompile.check import kubernetes
from etcompile.compiler.options import Options
from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.model import PROFILES, SecretMode, Services, Settings
from etcompile.model import settings as known_settings

_LONGEST_SHOWN = 60
_TEXTS = ("init_image", "kubectl_image", "cluster_domain", "run", "gang_scheduler")


def impossible_choices(options: Options) -> list[Diagnostic]:
    """An error for each option with a value that it cannot have."""
    return [*_settings(options.settings), *_folders(options)]


def _settings(settings: Settings) -> Iterator[Diagnostic]:
    known = {
        "kubernetes_version": kubernetes.versions(),
        "services": get_args(Services),
        "gang": known_settings.GANGS,
    }
    for name, values in known.items():
        if (given := getattr(settings, name)) not in values:
            yield _refused(name, given, f"it is one of {', '.join(values)}")
    profiles = settings.profiles
    if not isinstance(profiles, tuple | list):
        yield _refused("profiles", profiles, "it is a tuple of names")
    else:
        for profile in profiles:
            if profile not in PROFILES:
                yield _refused("profiles", profile, f"each is one of {', '.join(PROFILES)}")
    if not isinstance(settings.secret, SecretMode):
        yield _refused("secret", settings.secret, "it is a SecretMode")
    for name in _TEXTS:
        given = getattr(settings, name)
        if given is not None and not _is_text(given):
            yield _refused(name, given, "it is text that UTF-8 can hold")


def _is_text(value: object) -> bool:
    return isinstance(value, str) and shown(value) == value and "\0" not in value


def shown(value: object) -> str:
    """A value as a message can print it, whatever it is."""
    try:
        words = value if isinstance(value, str) else repr(value)
    except Exception:
        words = type(value).__name__
    return words.encode(errors="backslashreplace").decode()


def _refused(name: str, value: object, problem: str) -> Diagnostic:
    from etcompile.diagnostics.excerpts import excerpt  # noqa: PLC0415 - few choices are refused

    words = excerpt(shown(value), _LONGEST_SHOWN)
    return diagnose(
        codes.IMPOSSIBLE_CHOICE, None, option=f"Settings.{name}", value=words, problem=problem
    )


def _folders(options: Options) -> Iterator[Diagnostic]:
    for name in ("output", "previous"):
        given = getattr(options, name)
        if given is not None and "\0" in str(given):
            words = str(given).replace("\0", "\\0")
            facts = {"option": f"Options.{name}", "value": words}
            yield diagnose(codes.IMPOSSIBLE_CHOICE, None, **facts, problem="no path holds a NUL")
