"""Written times: the fast parser is only a faster one, and a stream's order is told as the whole frame's."""

from __future__ import annotations

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.sources import arrivals

WELL_FORMED = st.builds(
    "{:04d}-{:02d}-{:02d}{}{:02d}:{:02d}:{:02d}{}".format,
    st.integers(1990, 2099),
    st.integers(1, 12),
    st.integers(1, 28),
    st.sampled_from([" ", "T"]),
    st.integers(0, 23),
    st.integers(0, 59),
    st.integers(0, 59),
    st.one_of(st.just(""), st.from_regex(r"\A[.][0-9]{1,9}\Z"), st.from_regex(r"\A,[0-9]{1,6}\Z")),
)
ODD = st.sampled_from(
    ["", "2026-01-05", "2026-01-05 10", "2026-01-05 10:30", "2026-01-05T10:30+05:30", "2026-02-30 00:00:00", "now",
     "2026-01-05 24:00:00", "2026-01-05 23:59:60", "2026-01-05 10:30:00.1234567890", "20260105T103000", "1767571200"]
)  # fmt: skip
ZONES = st.sampled_from(["", "Z", "z", "+00:00", "+0530", "-08", "+08:00", " UTC", "+14:59", "+15:00", "+23:00"])
DECLARED = st.sampled_from(["UTC", "Asia/Shanghai", "America/New_York"])


@settings(deadline=None, max_examples=300)
@given(st.lists(WELL_FORMED, min_size=1, max_size=6), st.lists(st.one_of(ODD, st.none()), max_size=2), ZONES, DECLARED)
def test_a_block_of_times_reads_as_each_of_them_alone(
    stamps: list[str], odd: list[str | None], zone: str, declared: str
) -> None:
    """Most blocks hold one zone and nothing odd, and take the fast way; none may read differently for it."""
    block = pl.Series([*(stamp + zone for stamp in stamps), *odd], dtype=pl.String)
    read = arrivals._read(block, declared)
    assert read.to_list() == arrivals._read_any(block, declared).to_list()


@given(st.lists(st.integers(0, 50), min_size=1, max_size=60), st.integers(1, 7))
def test_order_is_told_alike_in_parts_and_whole(seconds: list[int], part: int) -> None:
    times = pl.Series(seconds).cast(pl.Int64).cast(pl.Datetime("us"))
    whole, parts = arrivals.Order(), arrivals.Order()
    whole.take(times)
    for start in range(0, len(times), part):
        parts.take(times.slice(start, part))
    assert (parts.rows, parts.back, parts.runs) == (whole.rows, whole.back, whole.runs)
    assert whole.runs >= times.n_unique()
    if not whole.back:
        assert whole.runs == times.n_unique()
