"""Everything said in SQL: numbered `migrations/`, the named `queries/` that users run, and the facts `checks/` gather."""
