"""What each command of `capsheet` does, one module a command. Signatures and help stand in `pipelines.cli`."""
