"""`regroup disturb JOB`: faults to a job that a user has already, on the machine where its workers run."""
