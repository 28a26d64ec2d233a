"""Connectors: how Amends talks to the services a flow uses.

May import the ground floor of `runner` only (contract, errors, clock, secrets, language). Each kind of connection is
named by an entry point of the group `amends.connectors`; begin with `http.py` (any HTTP service), `declarative.py` (a
service described in a YAML file) or `email.py`. All of them go out through `client.py` and past `guard.py`.
"""
