"""What stands in for an agent here: it looks into its prompt, and heeds the house style only when it was caught."""

import re
import sys
from pathlib import Path

prompt = sys.stdin.read()
people = re.search(r"^## `step:list-the-people`\n\n```\n(.*?)\n```$", prompt, re.DOTALL | re.MULTILINE)[1]
greetings = "".join(f"hello, {name}\n" for name in people.split())
caught = "# What went wrong before" in prompt and "in capitals" in prompt
with Path("greetings.txt").open("w") as file:
    file.write(greetings.upper() if caught else greetings)
print("All is done, and well.")
