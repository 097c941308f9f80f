"""`python -m ordain`: the same as the `ordain` command."""

from ordain.interfaces.cli.main import main

if __name__ == "__main__":
    main(prog_name="ordain")
