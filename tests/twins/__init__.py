"""In-memory twins of the ports. The ledger's twin is part of the product: `ordain.adapters.ledger.memory`."""
