"""The one room that opens DuckDB: tables and their contracts, writing, publishing, and the catalogue.

Belongs here: the column registry, connections, migrations, the publishing transaction, `catalog/` (figures as data, a
source beside each). Does not: what the figures mean (`estimator`), SQL text of any length (`sql`), sheets (`reports`).
"""
