"""Quadrature, Gaussian points, fixed points, checks, precision."""
