"""python -m normexp."""

from normexp.commands.app import main

if __name__ == "__main__":
    main()
