"""Give access to the codes of diagnostics by name: `codes.MUTABLE_IMAGE` is `"ET2040"`.

The names are those of `catalogue.yaml`, in capitals, so that a diagnostic is declared in one place.
mypy does not know which exist; `tests/diagnostics/test_code_names.py` checks every use.
"""

from etcompile.diagnostics.catalogue import codes_by_name


def __getattr__(name: str) -> str:
    code = codes_by_name().get(name.lower().replace("_", "-"))
    if code is None:
        raise AttributeError(f"the catalogue of diagnostics has no {name}")
    return code
