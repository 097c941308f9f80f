"""`python -m ordain`: the same as the `ordain` command.

Python then looks for modules first in the directory it is started in. That is most often the workspace, where an agent
can leave one for us to load; so that directory is taken out before anything more is loaded.
"""

import sys
from pathlib import Path

if __name__ == "__main__" and not sys.flags.safe_path and sys.path[:1] == [str(Path.cwd())]:
    del sys.path[0]

from ordain.interfaces.cli.main import main

if __name__ == "__main__":
    main(prog_name="ordain")
