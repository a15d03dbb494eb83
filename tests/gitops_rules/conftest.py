"""What modes of keys need, once for all renders."""

import pytest

from keysources import Means, made_in


@pytest.fixture(scope="session")
def means(tmp_path_factory) -> Means:
    return made_in(tmp_path_factory.mktemp("gitops-rules"))
