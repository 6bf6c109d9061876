"""What a life's users know of the jobs that they wait for."""

import pytest

from regroup.core.beginning import other_data
from regroup.core.jobs import Beginning, Checkpoint, Job, Version
from regroup.lab.sim.lives.failing import OTHER_DATA_PRINTS, PRINT
from regroup.lab.sim.model.likeness_rules import OTHER_DATA_WORDS
from regroup.lab.sim.model.limits import SPEC


@pytest.mark.parametrize("theirs", OTHER_DATA_PRINTS)
def test_who_has_not_the_data_that_a_job_begins_from_is_known_by_the_words_of_its_refusal(theirs):
    begins = Beginning("old", Checkpoint(Version(7, 100), "/c/old", "sum", 1), PRINT)
    said = other_data(Job(id="j", spec=SPEC, submitted=0.0, beginning=begins), theirs)
    assert said is not None
    assert OTHER_DATA_WORDS in said
