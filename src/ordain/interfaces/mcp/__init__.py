"""The MCP server for agents that we did not write. Its tools, resources and prompts are values that know nothing of the
protocol; `server` and what it imports are the only modules that import the SDK, which is an extra and slow to load."""
