"""Ray: of it only what trains."""
