"""Known before it runs: a world that answers with no network, the ways to fail, and what each leaves standing.

May import `engine.simulated` and what is below, and `people`. Begin with `world`.
"""
