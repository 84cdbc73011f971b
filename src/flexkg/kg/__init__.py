"""Graphs: vocabularies, indexed triples, datasets on disk and where they come from."""
