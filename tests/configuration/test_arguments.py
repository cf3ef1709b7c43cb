"""Arguments: typed reading, with errors that name the key, its owner and its line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stromboli.scheduling.configuration.arguments import Arguments, ConfigurationError


def written(value: object) -> Arguments:
    return Arguments({"key": value}, lines={"key": 12}, owner='action "reserve"', where="scheduler.yaml")


def test_a_missing_or_empty_key_gives_the_default() -> None:
    for arguments in (Arguments(), Arguments({"key": None})):
        assert arguments.integer("key", 7) == 7
        assert arguments.number("key", 0.5) == 0.5
        assert arguments.boolean("key", True) is True
        assert arguments.text("key", "node") == "node"
        assert arguments.duration("key", 90.0) == 90.0


@pytest.mark.parametrize(("value", "expected"), [(10, 10), ("10", 10), (" -3 ", -3), (5.0, 5), ("+4", 4)])
def test_integers(value: object, expected: int) -> None:
    found = written(value).integer("key", 0)
    assert found == expected
    assert type(found) is int


@pytest.mark.parametrize(("value", "expected"), [(1, 1.0), (1.5, 1.5), ("1.5", 1.5), ("2", 2.0), ("1e3", 1000.0)])
def test_numbers(value: object, expected: float) -> None:
    found = written(value).number("key", 0.0)
    assert found == expected
    assert type(found) is float


@pytest.mark.parametrize(
    ("value", "expected"), [(True, True), (False, False), ("true", True), ("False", False), ("TRUE", True)]
)
def test_booleans(value: object, expected: bool) -> None:
    assert written(value).boolean("key", not expected) is expected


@pytest.mark.parametrize(
    ("value", "seconds"),
    [(90, 90.0), (0.5, 0.5), ("90", 90.0), ("30s", 30.0), ("1h30m", 5400.0), ("250ms", 0.25)],
)
def test_durations(value: object, seconds: float) -> None:
    assert written(value).duration("key", 0.0) == seconds


def test_texts() -> None:
    assert written("amount").text("key", "node") == "amount"
    assert written("amount").text("key", "node", choices=("node", "amount")) == "amount"


FRONT = 'scheduler.yaml, line 12: action "reserve": argument "key" must be '
WHOLE = FRONT + "a whole number, not "
NUMBER = FRONT + "a number, not "
TRUTH = FRONT + "true or false, not "
TEXT = FRONT + "a string, not "
DURATION = FRONT + "a duration such as 30s, 5m or 1h30m, or a number of seconds, not "


@pytest.mark.parametrize(
    ("reader", "value", "message"),
    [
        ("integer", "ten", WHOLE + '"ten"'),
        ("integer", 1.5, WHOLE + "1.5"),
        ("integer", "1.5", WHOLE + '"1.5"'),
        ("integer", True, WHOLE + "true"),
        ("integer", [1], WHOLE + "[1]"),
        ("integer", {"a": 1}, WHOLE + '{"a": 1}'),
        ("integer", float("inf"), WHOLE + "Infinity"),
        ("integer", "9" * 5000, WHOLE + '"' + "9" * 56 + "..."),
        ("number", "a lot", NUMBER + '"a lot"'),
        ("number", "nan", NUMBER + '"nan"'),
        ("number", "1_000", NUMBER + '"1_000"'),
        ("number", float("nan"), NUMBER + "NaN"),
        ("number", False, NUMBER + "false"),
        ("number", "1e999", NUMBER + '"1e999"'),
        ("boolean", "yes", TRUTH + '"yes"'),
        ("boolean", 1, TRUTH + "1"),
        ("text", 5, TEXT + "5"),
        ("text", True, TEXT + "true"),
        ("duration", "soon", DURATION + '"soon"'),
        ("duration", True, DURATION + "true"),
        ("duration", -1, DURATION + "-1"),
        ("duration", float("inf"), DURATION + "Infinity"),
        ("duration", [1], DURATION + "[1]"),
    ],
)
def test_a_wrong_type_names_line_owner_and_key(reader: str, value: object, message: str) -> None:
    default = {"integer": 1, "number": 1.0, "boolean": True, "text": "", "duration": 1.0}[reader]
    with pytest.raises(ConfigurationError) as caught:
        getattr(written(value), reader)("key", default)
    assert str(caught.value) == message


def test_ranges_include_their_ends() -> None:
    assert written(0).integer("key", 50, minimum=0, maximum=100) == 0
    assert written(100).integer("key", 50, minimum=0, maximum=100) == 100
    with pytest.raises(ConfigurationError, match=r"must be from 0 to 100, not 101$"):
        written(101).integer("key", 50, minimum=0, maximum=100)
    with pytest.raises(ConfigurationError, match=r"must be 1 or more, not \"0\"$"):
        written("0").integer("key", 1, minimum=1)
    with pytest.raises(ConfigurationError, match=r"must be 1\.0 or less, not 1\.5$"):
        written(1.5).number("key", 1, maximum=1.0)
    with pytest.raises(ConfigurationError, match=r"must be 10 or more, not \"5s\"$"):
        written("5s").duration("key", 60, minimum=10)


def test_choices() -> None:
    with pytest.raises(ConfigurationError) as caught:
        written("nodes").text("key", "node", choices=("node", "amount"))
    assert str(caught.value) == FRONT + 'one of node, amount, not "nodes"'


def test_values_that_no_file_gave_have_no_place_in_their_errors() -> None:
    with pytest.raises(ConfigurationError) as caught:
        Arguments({"key": "x"}).integer("key", 1)
    assert str(caught.value) == 'argument "key" must be a whole number, not "x"'


def test_keys_that_nobody_asks_for_are_warned_of() -> None:
    arguments = Arguments(
        {"weight": 1, "wieght": 2, "raw": 3},
        lines={"weight": 4, "wieght": 5, "raw": 6},
        owner='plugin "binpack"',
        where="scheduler.yaml",
    )
    arguments.integer("weight", 1)
    arguments.integer("absent", 1)
    assert arguments["raw"] == 3
    expected = ('scheduler.yaml, line 5: plugin "binpack": unknown argument "wieght" is ignored',)
    assert arguments.warnings() == expected
    assert len(arguments.unasked().warnings()) == 3
    assert arguments.warnings() == expected


def test_merging_keeps_ones_own_values_and_all_lines() -> None:
    own = Arguments({"a": 1}, lines={"a": 2}, owner='action "reserve"', where="scheduler.yaml")
    merged = own.merged(Arguments({"a": 9, "b": "x"}, lines={"a": 7, "b": 8}))
    assert dict(merged) == {"a": 1, "b": "x"}
    with pytest.raises(ConfigurationError, match=r'^scheduler.yaml, line 8: action "reserve": argument "b"'):
        merged.integer("b", 0)


@given(st.integers())
def test_an_integer_and_its_text_are_the_same(value: int) -> None:
    assert written(value).integer("key", 0) == written(str(value)).integer("key", 0) == value


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_and_its_text_are_the_same(value: float) -> None:
    assert written(value).number("key", 0) == written(repr(value)).number("key", 0) == value


@pytest.mark.parametrize(
    ("value", "amount"), [("250m", 250), ("2", 2000), (0.5, 500), (300, 300), (None, 100), (0, 0), ("1e1", 10_000)]
)
def test_amounts_are_quantities_or_whole_numbers_of_units(value: object, amount: int) -> None:
    assert written(value).quantity("key", "100m", resource="cpu", unit=1) == amount
    assert Arguments({"key": 3}).quantity("key", "1Mi", resource="memory", unit=1 << 20) == 3 << 20


@pytest.mark.parametrize("value", ["much", -1, "-1", True, [1], {}])
def test_an_amount_that_is_none_is_an_error(value: object) -> None:
    with pytest.raises(ConfigurationError) as caught:
        written(value).quantity("key", "100m", resource="cpu", unit=1)
    assert 'scheduler.yaml, line 12: action "reserve": argument "key" must be an amount such as 100m' in str(
        caught.value
    )


def test_sections_have_their_place_and_their_warnings() -> None:
    outer = written({"inner": {"here": 1, "odd": 2}, "stray": 3})
    inner = outer.section("key").section("inner")
    assert inner.integer("here", 0) == 1
    assert outer.warnings() == (
        'scheduler.yaml, line 12: action "reserve", "key": unknown argument "stray" is ignored',
        'scheduler.yaml, line 12: action "reserve", "key", "inner": unknown argument "odd" is ignored',
    )
    with pytest.raises(
        ConfigurationError, match=r'^scheduler.yaml, line 12: .* "key", "inner": argument "here" must be t'
    ):
        inner.boolean("here", True)
    assert dict(outer.section("missing")) == {}
    with pytest.raises(ConfigurationError, match='argument "key" must be a mapping, not 5'):
        written(5).section("key")


def test_arguments_that_are_known_to_have_no_effect_say_why() -> None:
    assert written(1).warnings({"key": "it is so anyway"}) == (
        'scheduler.yaml, line 12: action "reserve": argument "key" has no effect: it is so anyway',
    )
