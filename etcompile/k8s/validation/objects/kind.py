"""What is known of the API server's validation of one kind of objects.

Apart from the tables, which are many, and from the look-up, which opens the one that is needed.
"""

from collections.abc import Mapping

from msgspec import Struct, field

from etcompile.k8s.validation.rule import Path, Rule


class Kind(Struct, frozen=True):
    """The validation of a kind.

    Args:
        names: The kind with each apiVersion it is served in: `apps/v1/Deployment`.
        example: A correct object, as YAML: the examples of the rules are set into it.
        rules: What it must satisfy beyond its schema and its metadata.
        form: What its name must be: `subdomain`, `label`, `service` (a label that begins with a
            letter) or `segment` (of a path).
        templates: Where it has Pod templates.
        examples: Other correct objects for the rules whose path begins so.
    """

    names: tuple[str, ...]
    example: str
    rules: tuple[Rule, ...] = ()
    form: str = "subdomain"
    templates: tuple[Path, ...] = ()
    examples: Mapping[str, str] = field(default_factory=dict)
