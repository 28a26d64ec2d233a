"""The simulation: the real engine and the real store, several processes of them, on a virtual clock in one thread.

`city` holds the world of one seed and says what happens next, `machine` is one engine process that can die, stall and
wake too late, `receivers` are the services with their true ledger, `play` judges a seed. The people are those of
`tests.laws`. Nothing waits for real time, no thread is started, and one `random.Random` decides every chance.
"""
