"""The gateway: stands between an agent's host and the MCP servers that the configuration names. Of a message only what
tells sessions apart is rewritten. Nothing here but HTTP imports the SDK, until Ordain's own tools are needed."""
