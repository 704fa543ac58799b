"""`python -m vtax` is `vtax`."""

from vtax.cli.main import main

if __name__ == "__main__":
    main()
