"""The paper's tables as data, beside what was measured here, and the runs that fill them."""
