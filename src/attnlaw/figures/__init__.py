"""One file a figure: compute → Dataset, draw → Figure."""
