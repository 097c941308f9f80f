"""`python -m ordain`, and what the `ordain` command is: a hook of an agent's host is answered at once, and everything
else is the command line's.

Python looks for modules first in the directory that it is started in with `-m`. That is most often the workspace, where
an agent can leave one for us to load; so that directory is taken out before anything more is loaded.
"""

import atexit
import contextlib
import gc
import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    from pathlib import Path

    if sys.path[:1] == [str(Path.cwd())]:
        del sys.path[0]


def main() -> None:
    """Do what the words of the command line say."""
    gc.set_threshold(100_000, 20, 20)  # what is imported stays: looking through it finds nothing
    atexit.register(gc.freeze)  # nor does Python's own last look through it
    if sys.argv[1:3] == ["guard", "hook"]:
        from ordain.interfaces.hook.entry import enter

        enter(sys.argv[3:])
    if sys.argv[1:2] == ["__complete"]:  # a shell that completes a word; what goes wrong must not be seen
        from ordain.interfaces.cli.completion import complete

        with contextlib.suppress(Exception):
            complete(sys.argv[2:])
        return
    from ordain.interfaces.cli.main import main as command_line

    command_line(prog_name="ordain")


if __name__ == "__main__":
    main()
