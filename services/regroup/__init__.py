"""Regroup: an elastic training cluster for PyTorch."""
