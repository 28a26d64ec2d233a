"""Lists, events and what follows a failure: the embedded engine on a real database, in front of real receivers."""
