"""The engine's process is killed at every named point, started again, and the receivers' ledgers are read.

`project` is what runs, `killer` where it dies, `zygote` the process that is forked for each case, `ledger` the verdict.
"""
