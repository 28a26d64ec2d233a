"""What happens next, decided without touching the world: no clock, no I/O, no randomness, no asyncio.

May import floor 0 only. Begin with `events` (what is recorded), then `state.fold` (what the log means) and
`decide.decide` (what follows from it).
"""
