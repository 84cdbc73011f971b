"""A thin HTTP server over the predictor, and one web page."""
