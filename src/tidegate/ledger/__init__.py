"""The ledger: sealed, versioned documents with compare-and-swap."""
