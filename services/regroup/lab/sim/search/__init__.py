"""Every schedule of small clusters, where `lives` show some schedules of larger ones."""
