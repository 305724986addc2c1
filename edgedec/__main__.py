"""``python -m edgedec``: the command ``edgedec`` of this Python."""

from edgedec.cli.main import main

if __name__ == "__main__":
    main()
