"""From bytes to syntax trees, and where a project's modules and settings are."""
