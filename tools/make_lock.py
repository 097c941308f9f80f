"""Write the hashed lock for pyproject.toml and all its extras; refuses to write one that names a registry."""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

COMPILE = "pip compile --universal --generate-hashes --no-annotate --no-header --python-version 3.11 --all-extras"


def main(target: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        venv = Path(folder) / "venv"
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        subprocess.run([venv / "bin/pip", "install", "--quiet", "uv"], check=True)
        done = subprocess.run(
            [venv / "bin/uv", *COMPILE.split(), "pyproject.toml"], check=True, capture_output=True, text=True
        )
    if re.search(r"://|--index|--find-links", done.stdout):
        sys.exit("the lock names a registry address; not written")
    target.write_text("# Made by `make lock`. Exact versions and hashes; no registry is named.\n" + done.stdout)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
