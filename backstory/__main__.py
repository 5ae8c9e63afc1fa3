"""Run the command line as ``python -m backstory``."""

from backstory.interfaces.cli.app import main

if __name__ == "__main__":
    main()
