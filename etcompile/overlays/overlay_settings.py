"""Compute the settings after overlays.

A flag takes precedence over the last overlay, a later overlay over an earlier one, and any of them
over the default.
"""

import os
from collections.abc import Collection, Sequence
from typing import Any

from msgspec import structs

from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.model import GANGS, Settings
from etcompile.model.settings import SETTINGS, secret_mode, setting_value
from etcompile.overlays.document_patches import new_image
from etcompile.overlays.overlay import Edit, Overlay, Target

_IMAGES = ("init_image", "kubectl_image")


def settled(
    before: Settings,
    explicit: Collection[str],
    overlays: Sequence[Overlay],
    versions: Sequence[str],
) -> tuple[Settings, dict[str, Overlay], frozenset[Edit], list[Diagnostic]]:
    """Return the settings, the overlay that decides each, the matched edits, and errors."""
    values: dict[str, Any] = {}
    deciding: dict[str, Overlay] = {}
    matched: set[Edit] = set()
    problems: list[Diagnostic] = []
    for overlay in overlays:
        impossible: dict[str, Diagnostic] = {}
        version = overlay.settings.get("kubernetesVersion")
        if version is not None and version.removeprefix("v") not in versions:
            place = overlay.source.locate(("settings", "kubernetesVersion"))
            facts = {"version": version, "known": f"{versions[0]} to {versions[-1]}"}
            problem = diagnose(codes.OVERLAY_KUBERNETES_VERSION, place, **facts)
            impossible["kubernetesVersion"] = problem
        if (secret := overlay.settings.get("secret")) is not None:
            try:
                secret_mode(secret)
            except ValueError as error:
                place = overlay.source.locate(("settings", "secret"))
                impossible["secret"] = diagnose(codes.OVERLAY_SECRET, place, problem=error)
        gang = overlay.settings.get("gang")
        if gang is not None and gang not in GANGS:
            place = overlay.source.locate(("settings", "gang"))
            known = ", ".join(GANGS)
            impossible["gang"] = diagnose(codes.OVERLAY_GANG, place, gang=gang, known=known)
        problems += impossible.values()
        folder = os.path.dirname(overlay.source.locate(()).file)  # noqa: PTH120 - may be no path
        for name, value in overlay.settings.items():
            if name not in impossible and (field := SETTINGS[name]) not in explicit:
                # Make a file relative to where the overlay is used, not to the overlay.
                read = setting_value(field, value)
                values[field] = read.relative_to(folder) if field == "secret" else read
                deciding[name] = overlay
        for edit in overlay.edits:
            if edit.change != "image" or edit.target != Target():
                continue
            for field in (field for field in _IMAGES if field not in explicit):
                image = values.get(field, getattr(before, field))
                if image and (new := new_image(image, edit.value.value)):
                    values[field] = new
                    matched.add(edit)
    return structs.replace(before, **values), deciding, frozenset(matched), problems
