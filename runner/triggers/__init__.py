"""How runs begin. May import floors 0 to 3. Begin with `start`: every trigger starts a run by it."""
