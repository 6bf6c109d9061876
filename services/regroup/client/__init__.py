"""The user's side of Regroup: an SDK over the REST API, and the command line on top of it."""

from regroup.client.sdk import Client

__all__ = ["Client"]
