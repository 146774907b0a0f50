"""Requests of a new file that another file of its source gave already: refused there, so that none counts twice.

Belongs here: how such requests are known, by their id or, without one, by being the same in a stretch of time that two
files share. Does not: files of the same bytes (`pipelines.ingest`), spans twice in one file (`sources.spans`).
"""

from __future__ import annotations

from importlib import resources
from typing import cast

import duckdb

from pipelines.sources.base import NOT_A_REQUEST
from warehouse.requests import Place

OF_ITS_OWN = f"{NOT_A_REQUEST} of its own: "
"""How the reason of a request begins that another file gave before."""
_LOOKED_AT = 200_000
"""So many requests tell whether a stretch was delivered before; of a longer one a part is looked at first."""
_ENOUGH = 1_000
"""With fewer requests of the part in a stretch, all of it is looked at."""


def statement(name: str, place: Place | None = None) -> str:
    """A statement of sql/ingest; one that changes rows is written for request_full, and runs where the file's stand."""
    text = (resources.files("sql") / "ingest" / f"{name}.sql").read_text(encoding="utf-8")
    return text if place is None else text.replace("request_full", place.part.name)


def refuse_by_id(con: duckdb.DuckDBPyConnection, place: Place, name: str, source: str) -> int:
    """Refuse requests of a file whose id another file of the source gave already; how many."""
    con.execute(statement("refuse_delivered"), {"source": name, "aside": NOT_A_REQUEST, "named_by": source})
    return _drop(con, place, name)


def refuse_alike(
    con: duckdb.DuckDBPyConnection, place: Place, name: str, source: str, rows: int
) -> tuple[int, list[str]]:
    """Refuse requests without an id that overlapping files of the source gave already; how many, and what to say.

    Two files overlap in a stretch of time. Where half of the new file's requests there are requests that stand already,
    the same in every column, and chance does not explain it (moved by a few clock steps they are not as often the
    same), the stretch was delivered before: of each request the larger of the two counts remains, not their sum.
    Elsewhere all are kept: two replicas may well serve like requests in one second.
    """
    span = {"named_by": source, "file_number": place.file_number}
    overlaps = con.execute(statement("overlaps"), span).pl()
    if overlaps.is_empty():
        return 0, []
    con.register("stretches", overlaps)
    for every in dict.fromkeys((max(1, rows // _LOOKED_AT), 1)):
        con.execute(statement("compared"), {"source": name, "every": every})
        seen = con.execute(statement("coincide")).pl()
        if seen.height == overlaps.height and cast(int, seen["requests"].min()) >= _ENOUGH:
            break
    again, notes = [], []
    for other, requests, alike, by_chance in seen.iter_rows():
        if alike * 2 >= requests and by_chance * 2 < alike:
            again.append(other)
        elif alike * 2 >= requests:
            notes.append(f"requests the same as in {other} are kept: as many are at other times, by chance")
    refused = 0
    if again:
        con.unregister("stretches")
        con.register("stretches", overlaps.filter(overlaps["source_file"].is_in(again)))
        con.execute(statement("compared"), {"source": name, "every": 1})
        con.execute(statement("refuse_alike"), {"source": name, "aside": NOT_A_REQUEST})
        refused = _drop(con, place, name)
        notes.append(f"{refused:,} delivered before, the same in {', '.join(again[:3])}{'...' * (len(again) > 3)}")
    con.execute("DROP TABLE compared")
    con.unregister("stretches")
    return refused, notes


def _drop(con: duckdb.DuckDBPyConnection, place: Place, name: str) -> int:
    values = {"source": name, "aside": NOT_A_REQUEST, "file_number": place.file_number}
    return int(con.execute(statement("drop_delivered", place), values).fetchall()[0][0])
