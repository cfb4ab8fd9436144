"""The training road: data, objective, optimisers, fit."""
