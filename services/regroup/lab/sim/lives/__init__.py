"""Lives of clusters in virtual time, drawn from seeds: the real shell over a network, stores and clocks that fail."""
