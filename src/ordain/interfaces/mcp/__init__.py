"""The MCP server: how agents that we did not write propose, start and watch plans, and ask a person for approval.

The tools, resources and prompts are values and functions that know nothing of the protocol; `server` and what it
imports are the only modules that import the SDK, which is an extra and slow to load.
"""
