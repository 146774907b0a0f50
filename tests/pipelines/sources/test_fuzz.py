"""Whatever is done to a file of any format: never a traceback, and rows in = rows kept + rows rejected."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.sources import SourceError, SourceRead, read_trace
from tests.pipelines.sources.examples import EXAMPLES, Example, write
from warehouse.contracts import violations
from warehouse.registry import table

LONG = 10_000_000


def is_one_clear_line(message: str) -> None:
    assert message
    assert "\n" not in message
    assert "Traceback" not in message
    assert len(message) < 1_200
    assert message.rstrip().endswith(".")


def is_sound(got: SourceRead) -> None:
    """Nothing lost, every reason told, and every kept row fit for its table."""
    assert got.rows_read == got.frame.height + got.rejected.height
    assert got.rejected["reason"].null_count() == 0
    assert (got.rejected["reason"].str.len_chars() < 400).all()
    kept, refused = violations(table("request"), got.frame)
    assert refused.is_empty(), refused["reason"].head(3).to_list()
    assert kept.height == got.frame.height
    assert not (got.frame["replayable"] & (got.frame["osl_tokens"].fill_null(0) == 0)).any()


def attempt(path: Path, name: str, example: Example) -> SourceRead | None:
    """What the reader makes of a file under its format's name; None where it refuses the file in one clear line."""
    try:
        got = read_trace(path, example.name, name, example.options)
    except SourceError as error:
        is_one_clear_line(str(error))
        return None
    is_sound(got)
    return got


def nth(lines: list[bytes], at: int, change: Callable[[bytes], bytes]) -> list[bytes]:
    return [change(line) if i == at else line for i, line in enumerate(lines)]


def replaced(line: bytes, old: bytes, new: bytes) -> bytes:
    assert old in line, (old, line)
    return line.replace(old, new, 1)


def number_of(line: bytes) -> bytes:
    """The last number of a row that stands alone: a length, a time or an id."""
    return next(word for word in (b"40", b"41") if word in line)


# Each breaks the middle one of three rows; the others must come through.
BREAKAGE: dict[str, Callable[[bytes], bytes]] = {
    "truncated": lambda line: line[: len(line) * 2 // 3],
    "NUL bytes": lambda line: line[:-3] + b"\x00" + line[-3:],
    "Latin-1": lambda line: line[:-2] + "é".encode("latin-1") + line[-2:],
    "UTF-16": lambda line: line.decode().encode("utf-16-le"),
    "10 MB": lambda line: line[:-1] + b"9" * LONG + line[-1:],
    "a lone brace": lambda _: b"{",
    "a number": lambda _: b"12",
    "a list": lambda _: b"[1, 2]",
    "deep": lambda _: b"[" * 5_000,
    "prose": lambda _: b"something else altogether",
}


@pytest.mark.parametrize("kind", BREAKAGE)
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_broken_row_spoils_no_other_and_is_kept_as_rejected(tmp_path: Path, name: str, kind: str) -> None:
    example = EXAMPLES[name]
    good = [row.encode() for row in example.rows]
    bad = BREAKAGE[kind](good[1])
    lines = [*([example.header.encode()] if example.header else []), good[0], bad, good[1]]
    got = attempt(write(tmp_path, example, b"\n".join(lines)), name, example)
    assert got is not None
    assert got.rows_read >= 3
    assert got.frame.height >= 2
    if kind != "Latin-1" or b"," in bad:
        assert got.rejected.height >= 1 or b'"' in bad


HOSTILE = ["=HYPERLINK(1)", "../../etc/passwd", "'; DROP TABLE request; --", "\ud800", "a\x00b", "x" * 3_000, "\u202e"]


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("name", EXAMPLES)
def test_hostile_text_stays_text(tmp_path: Path, name: str, text: str) -> None:
    example = EXAMPLES[name]
    quoted = json.dumps(text).encode() if example.name != "t.csv" else text.encode("utf-8", "replace")
    lines = [line.encode() for line in example.text.splitlines()]
    lines[-1] = lines[-1].replace(number_of(lines[-1]) if b"40" in lines[-1] or b"41" in lines[-1] else b"", quoted, 1)
    got = attempt(write(tmp_path, example, b"\n".join(lines)), name, example)
    assert got is None or got.rows_read >= 2


@pytest.mark.parametrize("unit", [1e-9, 1e3, 1e6, 1e9, 1e12, 1e18, -1])
@pytest.mark.parametrize("name", EXAMPLES)
def test_numbers_in_a_wrong_unit_are_read_or_rejected_never_lost(tmp_path: Path, name: str, unit: float) -> None:
    example = EXAMPLES[name]

    def scaled(value: object) -> object:
        if isinstance(value, dict):
            return {key: scaled(held) for key, held in value.items()}
        if isinstance(value, list):
            return [scaled(held) for held in value]
        return value * unit if isinstance(value, int | float) and not isinstance(value, bool) else value

    if example.name == "t.csv":
        cells = [[cell for cell in row.split(",")] for row in example.rows]
        rows = [",".join(str(float(c) * unit) if c.replace(".", "").isdigit() else c for c in row) for row in cells]
    else:
        rows = [json.dumps(scaled(json.loads(row))) for row in example.rows]
    content = "\n".join(line for line in (example.header, *rows) if line).encode()
    got = attempt(write(tmp_path, example, content), name, example)
    assert got is None or got.rows_read >= len(rows)


@pytest.mark.parametrize("name", EXAMPLES)
def test_keys_and_columns_in_any_order_say_the_same(tmp_path: Path, name: str) -> None:
    example = EXAMPLES[name]
    straight = read_trace(write(tmp_path, example), example.name, name, example.options).frame

    def turned(value: object) -> object:
        if isinstance(value, dict):
            return {key: turned(held) for key, held in reversed(list(value.items()))}
        return [turned(held) for held in value] if isinstance(value, list) else value

    if example.name == "t.csv":
        lines = [",".join(reversed(line.split(","))) for line in (example.header, *example.rows)]
    else:
        lines = [json.dumps(turned(json.loads(row))) for row in example.rows]
    got = read_trace(write(tmp_path, example, "\n".join(lines).encode()), example.name, name, example.options)
    assert got.frame.equals(straight)


@pytest.mark.parametrize("name", ["../../t.jsonl", "=cmd|'x'!A1", "a;b.csv", "-rf", "t\u202e.csv", "con.csv", "%s%n"])
def test_a_path_like_name_is_only_a_name(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, EXAMPLES["azure"])
    got = read_trace(path, name)
    assert got.frame["source_file"].unique().to_list() == [name]
    with pytest.raises(SourceError) as caught:
        read_trace(tmp_path / "gone", name)
    is_one_clear_line(str(caught.value))


def test_every_format_is_found_by_its_header_or_keys_alone(tmp_path: Path) -> None:
    for name, example in EXAMPLES.items():
        assert read_trace(write(tmp_path, example), example.name, "auto", example.options).format == name


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(10**20), 10**20), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=2)),
    max_leaves=4,
)


def mutated(value: object, draw: random.Random, junk: list[object]) -> object:
    """A JSON value with some of its parts replaced, dropped or repeated."""
    if junk and draw.random() < 0.15:
        return junk[draw.randrange(len(junk))]
    if isinstance(value, dict):
        return {key: mutated(held, draw, junk) for key, held in value.items() if draw.random() > 0.08}
    if isinstance(value, list):
        return [mutated(held, draw, junk) for held in value for _ in range(draw.choice((1, 1, 1, 0, 2)))]
    return value


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from([name for name, example in EXAMPLES.items() if example.name != "t.csv"]),
    seed=st.integers(0, 2**32),
    junk=st.lists(json_values, max_size=4),
)
def test_json_with_any_part_changed_is_read_or_rejected(
    tmp_path_factory: pytest.TempPathFactory, name: str, seed: int, junk: list[object]
) -> None:
    example, draw = EXAMPLES[name], random.Random(seed)
    rows = [json.dumps(mutated(json.loads(row), draw, junk)) for row in example.rows * 2]
    lines = [example.rows[0], *rows, example.rows[1]]
    path = write(tmp_path_factory.mktemp("fuzz"), example, "\n".join(lines).encode())
    got = attempt(path, name, example)
    assert got is not None
    assert got.frame.height >= 1
    many = name in ("vllm_otlp", "otel_genai", "weka")
    assert many or got.rows_read == len(lines)
    # As one document, too: the same records, whichever way they are written down.
    whole = [json.loads(line) for line in lines]
    document = attempt(write(tmp_path_factory.mktemp("fuzz"), example, json.dumps(whole).encode()), name, example)
    assert document is not None
    assert (document.rows_read, document.frame.height) == (got.rows_read, got.frame.height)


@settings(max_examples=150, deadline=None)
@given(
    name=st.sampled_from(sorted(EXAMPLES)),
    cuts=st.lists(st.tuples(st.integers(0, 2_000), st.integers(0, 40), st.binary(max_size=8)), min_size=1, max_size=4),
    auto=st.booleans(),
)
def test_any_bytes_in_place_of_any_others_are_read_or_refused_in_one_line(
    tmp_path_factory: pytest.TempPathFactory, name: str, cuts: list[tuple[int, int, bytes]], auto: bool
) -> None:
    example = EXAMPLES[name]
    content = example.text.encode()
    for start, length, new in cuts:
        content = content[:start] + new + content[start + length :]
    path = write(tmp_path_factory.mktemp("fuzz"), example, content)
    attempt(path, "auto" if auto and not example.options else name, example)


@settings(max_examples=60, deadline=None)
@given(
    columns=st.dictionaries(
        st.sampled_from(["arrival_s", "isl_tokens", "osl_tokens", "cached_tokens", "outcome", "streaming", "model"]),
        st.lists(st.one_of(st.none(), st.integers(-5, 10**12)), min_size=3, max_size=3)
        | st.lists(st.one_of(st.none(), st.floats()), min_size=3, max_size=3)
        | st.lists(st.one_of(st.none(), st.text(max_size=6)), min_size=3, max_size=3)
        | st.lists(st.one_of(st.none(), st.booleans()), min_size=3, max_size=3),
    )
)
def test_parquet_of_any_types_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, columns: dict[str, list[object]]
) -> None:
    frame = pl.DataFrame({name: pl.Series(name, values, strict=False) for name, values in columns.items()})
    path = tmp_path_factory.mktemp("fuzz") / "t.parquet"
    frame.write_parquet(path)
    got = attempt(path, "capsheet", Example("t.parquet", ()))
    assert got is None or got.rows_read == 3


@settings(max_examples=60, deadline=None)
@given(
    windows=st.lists(
        st.one_of(
            st.sampled_from(["0,0,0,,0,0", "600,0.05,1,Gamma,0.7,2", "1200,0.05,1,Weibull,1,2", "600,nan,1,Gamma,1,1"]),
            st.text(max_size=30).filter(lambda text: len(text.splitlines()) == 1 and text.strip()),
            st.lists(st.floats().map(str), min_size=5, max_size=7).map(",".join),
        ),
        max_size=6,
    ),
    lengths=st.one_of(st.just("{300: 1.0}"), st.text(max_size=20), json_values),
)
def test_servegens_chunks_are_drawn_or_refused_whatever_they_hold(
    tmp_path_factory: pytest.TempPathFactory, windows: list[str], lengths: object
) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "chunk-1-trace.csv").write_bytes("\n".join(windows).encode("utf-8", "replace"))
    dataset = {"0": {"input_tokens": lengths, "output_tokens": "{40: 0.5, 50: 0.5}"}}
    (folder / "chunk-1-dataset.json").write_text(json.dumps(dataset))
    attempt(folder, "servegen", Example("s", (), options={"rate_factor": 0.01}))
