"""python -m gatedrnn."""

from gatedrnn.cli.app import main

if __name__ == "__main__":
    main()
