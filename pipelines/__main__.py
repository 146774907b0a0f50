"""`python -m pipelines` is `capsheet`."""

from pipelines.cli import main

main()
