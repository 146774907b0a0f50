"""Everything said in SQL: numbered `migrations/`, the named `queries/` users run, the facts that `checks/` gather."""
