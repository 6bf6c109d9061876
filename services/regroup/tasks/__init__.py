"""What a user trains: the contract of a task, and the built-in tasks.

Begin with `contract.Task`, which says what to write, and read `digits`, which is the shortest complete example; `gpt`
shows evaluation, a schedule and a report of text. A task of your own is named `module:Class` in a job.
Refuses to know: the cluster. A task never learns how many workers there are, or that one of them died.
"""

from regroup.tasks.contract import OptionError, Options, SizedDataset, Task, parse_options

__all__ = ["OptionError", "Options", "SizedDataset", "Task", "parse_options"]
