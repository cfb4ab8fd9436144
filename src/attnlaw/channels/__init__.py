"""Output side: the channel and its proximal step."""
