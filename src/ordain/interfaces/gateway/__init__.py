"""The gateway: stands between an agent's host and the MCP servers that the configuration names.

Messages pass as the values that they are; what is rewritten is what tells sessions apart (ids, tokens, names that two
servers share). Nothing here but HTTP imports the SDK, until Ordain's own tools are needed.
"""
