"""The exact interpretation of the query algebra: sets of entities."""
