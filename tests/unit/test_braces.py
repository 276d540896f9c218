"""Paths in braces: what bash makes of them, and how long they are."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from llm_variability.braces import brace_paths


def expand(words: str) -> list[str]:
    """Let bash expand words and hand them to a program, as it does for a job's command."""
    command = f"env printf '%s\\0' {words}" if words else ":"
    told = subprocess.run(["bash", "-c", command], capture_output=True, check=True)
    return told.stdout.decode().split("\0")[:-1]


def test_a_grid_of_paths_is_one_word() -> None:
    paths = [f"r/{t}/{a}.parquet" for t in ("T0", "T1.0-P0.8") for a in ("original", "typo-0.1")]
    assert brace_paths(paths) == "r/{T0,T1.0-P0.8}/{original.parquet,typo-0.1.parquet}"


@pytest.mark.parametrize(
    ("paths", "words"),
    [
        ([], ""),
        (["a/b"], "a/b"),
        (["/a/b", "/a/c"], "/a/{b,c}"),
        (["a/x/1", "a/x/2", "a/y/1"], "a/{x/{1,2},y/1}"),
        (["a/1", "b/1", "a/2"], "{a,b}/1 a/2"),
        (["a b/1", "a b/2"], "'a b'/{1,2}"),
    ],
)
def test_paths_are_folded_where_neighbours_agree(paths: list[str], words: str) -> None:
    assert brace_paths(paths) == words


PARTS = st.text(alphabet="ab,{}.~$ '\"\\*1", min_size=1, max_size=4)
PATHS = st.lists(
    st.builds("/".join, st.lists(PARTS | st.sampled_from(["a", "b", "c"]), min_size=1, max_size=4)),
    max_size=12,
)


@settings(max_examples=150, deadline=None)
@given(PATHS, st.sampled_from(["", "/", "//"]))
@example(["a", "a/b", "a"], "")
@example(["a/b", "a/b"], "/")
@example(["a/1..3", "a/5"], "")
@example(["a/x,y", "a/z"], "")
@example(["a/{x,y}"], "")
@example(["a/'", "a/,'"], "")
def test_bash_makes_the_same_paths_of_them_in_the_same_order(paths: list[str], root: str) -> None:
    given_paths = [root + path for path in paths]
    assert expand(brace_paths(given_paths)) == given_paths


def test_2400_cells_fit_into_an_argument_with_room_to_spare() -> None:
    paths = [
        f"results/draws/code/a-model-of-some-name/T{t / 10}-P{p / 10}/augmentation-0.{a:02}.parquet"
        for t in range(20)
        for p in range(5)
        for a in range(24)
    ]
    words = brace_paths(paths)
    assert len(" ".join(paths)) > 128 * 1024
    assert len(words) < 4 * 1024
    assert expand(words) == paths
