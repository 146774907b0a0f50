"""Everything said in SQL: numbered `migrations/` and the named `queries/` that users run."""
