"""What is run side by side: inputs, weights, our spec, what counts as equal."""
