"""What is said of failures that others have listed; those of a real node are in `tests/node`."""

import pytest

from failures.cases import case_of, check, explained, names


@pytest.mark.parametrize("name", names("status"))
def test_a_failure_is_explained_as_somebody_expected_who_did_not_know_the_rules(name: str) -> None:
    case = case_of(name)
    check(case, explained(case))
