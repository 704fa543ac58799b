"""`python -m vtax` is `vtax`."""

from vtax.cli.main import main

main()
