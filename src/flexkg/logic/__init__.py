"""Logic as linear algebra and as functions on the unit interval; nothing here knows of graphs or models."""
