"""Where Numba keeps what it compiles; to be said before anything imports Numba."""

from __future__ import annotations

import os
from pathlib import Path


def keep_compiled(folder: Path) -> None:
    """Let Numba keep what it compiles beside the package or, where that is read-only, in a folder.

    Otherwise each job would compile anew, or end where its home folder is read-only too.
    """
    beside = Path(__file__).parent
    if not os.access(beside, os.W_OK):
        os.environ.setdefault("NUMBA_CACHE_DIR", str(folder.resolve()))
