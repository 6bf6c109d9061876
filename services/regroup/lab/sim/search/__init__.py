"""Every schedule of small clusters, where lives (`life`) show some schedules of larger ones."""
