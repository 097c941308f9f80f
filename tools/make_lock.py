"""Write the hashed locks: one for pyproject.toml and its extras, one for the large wheel that programs from npm need.
Refuses to write one that names a registry."""

import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

COMPILE = "pip compile --universal --generate-hashes --no-annotate --no-header --python-version 3.11"
EXTRAS = ("--extra=llm", "--extra=mcp", "--extra=toon", "--extra=dev", "pyproject.toml")


def npm_packages() -> str:
    """What the extra `npm` asks for, one a line."""
    extras = tomllib.loads(Path("pyproject.toml").read_text())["project"]["optional-dependencies"]
    return "\n".join(extras["npm"])


def main(target: Path, npm: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        venv = Path(folder) / "venv"
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        subprocess.run([venv / "bin/pip", "install", "--quiet", "uv"], check=True)
        for lock, asked, given in ((target, EXTRAS, ""), (npm, ("-",), npm_packages())):
            done = subprocess.run(
                [venv / "bin/uv", *COMPILE.split(), *asked], check=True, capture_output=True, text=True, input=given
            )
            if re.search(r"://|--index|--find-links", done.stdout):
                sys.exit(f"{lock} would name a registry address; not written")
            lock.write_text("# Made by `make lock`. Exact versions and hashes; no registry is named.\n" + done.stdout)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
