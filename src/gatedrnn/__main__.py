"""python -m gatedrnn."""

from gatedrnn.cli import main

if __name__ == "__main__":
    main()
