"""``python -m starcast`` is the command line."""

from starcast.cli import main

if __name__ == "__main__":
    main()
