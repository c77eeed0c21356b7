"""What a person sees: events of a run, progress and tables. Returns text, prints nothing."""
