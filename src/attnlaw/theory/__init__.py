"""The theory road: solve, curve, the compiled kernel, solution, collapse."""
