"""Which plug-ins serve a run: the one place that knows all tables, used by both doors."""
