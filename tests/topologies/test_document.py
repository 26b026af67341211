from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topologies.document import read_yaml, write_yaml
from topologies.errors import UserError


def refusal(text: str) -> str:
    with pytest.raises(UserError) as caught:
        read_yaml(text, "file.yaml")
    return str(caught.value)


@pytest.mark.parametrize("word", ["NO", "no", "ON", "off", "Yes", "y", "n", "NULL", "True", "1:30"])
def test_words_that_yaml_1_1_reads_as_other_things_stay_text(word: str) -> None:
    assert read_yaml(f"code: {word}", "f").data == {"code": word}


@pytest.mark.parametrize(
    ("text", "value"),
    [("010", 10), ("1e3", 1000.0), ("-.5", -0.5), ("+7", 7), ("4.", 4.0), (".5", 0.5)],
)
def test_numbers_are_decimal(text: str, value: float) -> None:
    assert read_yaml(f"n: {text}", "f").data == {"n": value}


@pytest.mark.parametrize("text", ["0x10", "0o17", "1_000", "10Gbps", "2024-01-02", "0b1"])
def test_what_is_no_decimal_number_is_text(text: str) -> None:
    assert read_yaml(f"n: {text}", "f").data == {"n": text}


def test_keys_and_items_know_their_lines() -> None:
    document = read_yaml("# note\na: 1\nb:\n  - c: 2\n\n  - {d: 3,\n     e: 4}\n", "f")
    places = {("a",): 2, ("b",): 3, ("b", 0): 4, ("b", 0, "c"): 4, ("b", 1): 6, ("b", 1, "e"): 7}
    assert {path: document.line(path) for path in places} == places


def test_a_place_without_a_line_takes_that_of_what_is_around_it() -> None:
    assert read_yaml("a:\n  - b: 1\n", "f").line(("a", 0, "missing")) == 2


def test_a_key_given_twice_is_refused_with_both_lines() -> None:
    assert refusal("a: 1\nb: 2\na: 3\n") == (
        "file.yaml:3: a: given already on line 1; keep one of the two"
    )


def test_an_odd_key_is_quoted_so_that_the_message_stays_a_line() -> None:
    assert refusal('"a\\nb": 1\n"a\\nb": 2\n').startswith("file.yaml:2: 'a\\nb': given already")


def test_an_alias_is_refused_before_it_unfolds() -> None:
    bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "\n".join(
        f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]"
        for old, new in zip("abcdefgh", "bcdefghi", strict=True)
    )
    assert refusal(bomb).startswith("file.yaml:2: YAML: alias *a is not part of the format")


def test_deep_nesting_is_refused() -> None:
    assert "nested deeper than 12 levels" in refusal("[" * 100_000)


@pytest.mark.parametrize("value", ["!!python/name:os.system x", "!thing x", "!!float abc"])
def test_a_tag_is_refused(value: str) -> None:
    message = refusal(f"a: 1\nb: {value}\n")
    assert message.startswith("file.yaml:2: b: the tag ")


@pytest.mark.parametrize("value", ["", "~", "null"])
def test_a_value_left_empty_is_refused(value: str) -> None:
    assert refusal(f"a: 1\nb: {value}\n") == (
        "file.yaml:2: b: left empty; give a value or leave the key out"
    )


@pytest.mark.parametrize("text", ["", "# only a comment\n", "---\n...\n", "\n\n"])
def test_an_empty_file_is_told_what_a_file_holds(text: str) -> None:
    assert refusal(text).startswith("file.yaml:1: ")


@pytest.mark.parametrize(
    ("text", "line"),
    [("a: [1,\nb: 2", 2), ("a: 1\n\tb: 2", 2), ("a: 'x", 1), ("a: 1\nb: c: d", 2), ("a: @x", 1)],
)
def test_broken_yaml_is_told_by_line(text: str, line: int) -> None:
    assert refusal(text).startswith(f"file.yaml:{line}: YAML: ")


def test_a_second_document_is_refused() -> None:
    assert "another document" in refusal("a: 1\n---\nb: 2\n")


def test_a_control_character_is_refused_by_line() -> None:
    assert refusal("a: 1\nb: \x07\n").startswith("file.yaml:2: YAML: character #x0007")


plain = st.recursive(
    st.booleans()
    | st.integers(-(10**17), 10**17)
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec="utf-8", exclude_categories=["C"]), max_size=20)
    | st.sampled_from(["NO", "true", "null", "~", "", "1e3", "010", ".inf", "1_0", "- a", "a: b"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("abcNO0", min_size=1, max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["a", "b", "c"]), plain, min_size=1))
def test_plain_data_are_written_so_that_they_are_read_back(data: dict[str, object]) -> None:
    assert read_yaml(write_yaml(data), "f").data == data


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused_in_one_line(text: str) -> None:
    try:
        read_yaml(text, "file.yaml")
    except UserError as error:
        assert str(error).startswith("file.yaml:")
        assert "\n" not in str(error)
