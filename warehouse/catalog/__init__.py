"""The catalogue: figures as data, a source beside each, read here and held to the same contracts as any input.

Belongs here: accelerators, prices, engine settings, what engines take, and coefficients (CSV, their headers being the
registry's columns), the shipped models' configs in `models/`, and reading them. Not here: what the figures mean
(`estimator`).
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import polars as pl

from warehouse.contracts import ContractError, violations
from warehouse.errors import CapsheetError
from warehouse.registry import table

CATALOG = {
    "accelerators": "accelerator",
    "prices": "price",
    "engines": "engine_profile",
    "support": "engine_profile",
    "coefficients": "engine_profile",
}
"""Each catalogue file, without its suffix, and the table its rows belong to."""

_FOLDER = Path(__file__).parent


class CatalogError(CapsheetError):
    """A catalogue file that does not keep its table's contract."""


def catalog_path(name: str) -> Path:
    """The file of a catalogue, by a name of `CATALOG`; raises KeyError for another."""
    if name not in CATALOG:
        raise KeyError(f"no catalogue is called {name}; there are {', '.join(CATALOG)}")
    return _FOLDER / f"{name}.csv"


def read_catalog(name: str, path: Path | None = None) -> pl.DataFrame:
    """The rows of a catalogue in the columns and types of its table; `path` reads another file of the same layout.

    Every row must keep the contract: a figure that is wrong here is wrong in every plan. Raises CatalogError, naming
    the file, its line and the reason.
    """
    file = path or catalog_path(name)
    try:
        raw = pl.read_csv(file, infer_schema=False, null_values=[""], glob=False)
        if raw.is_empty():
            raise CatalogError(f"{file}: no rows under the header")
        if "unit" in raw.columns:  # an empty cell there is a figure that has none, such as a ratio
            raw = raw.with_columns(pl.col("unit").fill_null(""))
        kept, rejected = violations(table(CATALOG[name]), raw.with_row_index("line", offset=2))
    except OSError as error:
        raise CatalogError(f"{file} cannot be read ({type(error).__name__}); install capsheet again") from error
    except (pl.exceptions.PolarsError, ContractError) as error:
        raise CatalogError(f"{file}: {str(error).splitlines()[0]}") from error
    if rejected.height:
        line, reason = rejected.row(0)
        more = f" (and {rejected.height - 1} more)" if rejected.height > 1 else ""
        raise CatalogError(f"{file} line {line}: {reason}{more}")
    return kept


def catalog_fingerprint(name: str) -> str:
    """SHA-256 of a catalogue file's bytes."""
    return hashlib.sha256(catalog_path(name).read_bytes()).hexdigest()


def catalog_models() -> dict[str, Path]:
    """The shipped models' config files by hub id: `models/org--name.json` is `org/name`."""
    files = sorted((_FOLDER / "models").glob("*.json"))
    return {file.stem.replace("--", "/", 1): file for file in files}
