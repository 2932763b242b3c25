"""A starter configuration from a look at a folder."""
