"""The theory road: solve, solution, collapse."""
