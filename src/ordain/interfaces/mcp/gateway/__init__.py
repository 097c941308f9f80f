"""The gateway: how agents reach the MCP servers of a workspace, so that nothing guarded happens without a plan.

Messages are relayed as the plain JSON values that they are, so that what neither side of us knows passes unchanged.
"""
