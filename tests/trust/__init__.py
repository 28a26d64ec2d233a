"""Trust: proof that it holds. Each suite hurts the engine in one way and is read by one oracle (`oracle.broken`).

`python -m tests.trust` lists the suites, `python -m tests.trust NAME` runs one in its long form; the short forms are
`test_*.py`. A suite prints its figures, catches the mistakes that are planted in it, and reaches a floor of real effects.
"""
