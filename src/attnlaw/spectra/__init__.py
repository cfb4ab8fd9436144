"""Target laws, free convolution, and the spectral law of the learned map."""
