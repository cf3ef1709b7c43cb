"""`python -m stromboli` is the command `stromboli`."""

from stromboli.console.main import main

if __name__ == "__main__":
    main()
