"""The catalogue as a source like any other, and the prices a plan uses: the workspace's own before the catalogue's.

Belongs here: catalogue files as `SourceRead`. Does not: the files themselves (`warehouse.catalog`).
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping

import polars as pl

from pipelines.sources.base import REJECTED_SCHEMA, SourceError, SourceRead, fingerprint, shown
from warehouse.catalog import catalog_fingerprint, catalog_path, read_catalog
from warehouse.frames import polars_schema
from warehouse.registry import table


def read_catalog_table(name: str) -> SourceRead:
    """A catalogue file: `accelerators`, `prices`, `engines` or `coefficients`.

    Raises:
        CatalogError: a row of the file breaks its table's contract.
    """
    frame = read_catalog(name)
    return SourceRead(
        source_file=f"catalog/{name}.csv",
        format="catalog",
        frame=frame,
        rejected=pl.DataFrame(schema=REJECTED_SCHEMA),
        rows_read=frame.height,
        sha256=fingerprint(catalog_fingerprint(name), "catalog", {}),
        size_bytes=catalog_path(name).stat().st_size,
        detail="shipped with capsheet; a source beside each row",
    )


def read_prices(own: Mapping[str, float], source: str) -> SourceRead:
    """Every price, in USD per GPU hour: the workspace's `own` by accelerator, planned with, then the catalogue's.

    Raises:
        SourceError: a price for an accelerator that the catalogue does not know.
    """
    read = read_catalog_table("prices")
    known = read_catalog("accelerators")["gpu_id"].to_list()
    for gpu in own:
        if gpu not in known:
            near = difflib.get_close_matches(gpu, known, n=3, cutoff=0.4)
            hint = (
                f"Did you mean {' or '.join(near)}?" if near else 'See `capsheet sql "select gpu_id from accelerator"`.'
            )
            raise SourceError(f"prices: no accelerator is called {shown(gpu)}. {hint}")
    if not own:
        return read
    rows = [
        {
            "price_id": f"workspace-{gpu.lower()}",
            "gpu_id": gpu,
            "provider": "workspace",
            "commitment": "as the workspace says",
            "usd_per_gpu_hour": float(usd),
            "as_of": "as the workspace says",
            "planning_default": True,
            "label": "cited",
            "source": source,
        }
        for gpu, usd in own.items()
    ]
    mine = pl.DataFrame(rows, schema=polars_schema(table("price")))
    kept = pl.col("planning_default") & ~pl.col("gpu_id").is_in(list(own))
    frame = pl.concat([mine, read.frame.with_columns(kept.alias("planning_default"))])
    return SourceRead(
        source_file=read.source_file,
        format=read.format,
        frame=frame,
        rejected=read.rejected,
        rows_read=frame.height,
        sha256=fingerprint(read.sha256, "prices", {"own": dict(own), "source": source}),
        size_bytes=read.size_bytes,
        detail=f"{read.detail}; {len(mine)} of the workspace's own before them",
    )
