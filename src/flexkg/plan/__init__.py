"""How a batch of query terms runs: topology, grounding and the executor that every interpretation shares."""
