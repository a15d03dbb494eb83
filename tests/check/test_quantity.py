"""Quantities are read as the API server reads them."""

from decimal import Decimal

import pytest

from etcompile.k8s import quantity


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2", "2"),
        (2, "2"),
        (0.5, "0.5"),
        (1e-7, "0.0000001"),
        ("500m", "0.5"),
        ("1.5", "1.5"),
        ("1.", "1"),
        (".5", "0.5"),
        ("+1", "1"),
        ("-1", "-1"),
        ("1Ki", "1024"),
        ("1.5Gi", "1610612736"),
        ("1k", "1000"),
        ("1E", "1000000000000000000"),
        ("1E3", "1000"),
        ("1e-3", "0.001"),
        ("100n", "0.0000001"),
        ("10u", "0.00001"),
        ("m", "0"),
        (".", "0"),
        (" 2 ", "2"),
    ],
)
def test_a_quantity_is_a_number(text, expected):
    assert quantity.number(text) == Decimal(expected)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "1\t",
        "one",
        "1K",
        "1ki",
        "1MB",
        "1 Gi",
        "1g",
        "1e",
        "0x10",
        "1_000",
        "1.5.2",
        "1Gi\n",
    ],
)
def test_what_the_api_server_cannot_parse_is_no_quantity(text):
    assert quantity.number(text) is None


@pytest.mark.parametrize(
    ("text", "meant"), [("2GB", "2Gi"), ("512mb", "512Mi"), ("1 Gi", "1Gi"), ("lots", None)]
)
def test_the_usual_slips_are_recognised(text, meant):
    assert quantity.probably(text) == meant
