"""A module of a user that is a script: importing it reads a command line and leaves."""

import sys

from regroup.tasks import Task


class Script(Task):
    pass


sys.exit("usage: script.py DATA")
