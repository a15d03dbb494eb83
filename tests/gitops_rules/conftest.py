"""What modes of keys need, once for all renders."""

import pytest

from keysources import Means, create_means


@pytest.fixture(scope="session")
def means(tmp_path_factory) -> Means:
    return create_means(tmp_path_factory.mktemp("gitops-rules"))
