"""Flow tests: the cases of `flows/x.test.yaml` played with the real core in a made-up world, and compared with what was
expected. Begin with `suite`: a file's cases in, what became of each out.

May import the engine, people and the drill's world, and everything below. `names` says how steps are called in a test,
`script` makes the voices of a case into answers, `cast` are its people, `stage` plays it, `happened` reads its log,
`compare` holds the two against each other, `recording` makes a case out of a real run.
"""
