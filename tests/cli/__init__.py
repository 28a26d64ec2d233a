"""The doors: timelines as a stranger reads them, and the real command line as a process of its own."""
