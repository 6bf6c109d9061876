"""Trouble of the control plane while a job trains: the steps go on, and what broke comes back."""
