"""Floor 4: what starts runs by itself. Each room takes what comes and hands it to `intake`; `active` says what is on.

A run and the event that started it are committed in one transaction, before anybody is answered.
"""
