"""The test of the simulations: known bugs, planted one at a time, that they must find."""
