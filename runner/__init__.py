"""Amends: business automations that know how to make amends.

The rooms, from the ground up (each imports downwards only):

0  errors, contract, clock, secrets, language (the words of pages and mails: tongue, locales, recorded)
1  core
2  store
3  engine
4  people, triggers
5  app (with driver, far, orders, outside, reading), telling, backfill
6  cli, web, demo

Begin with `contract` (what a connector is), `core/events` (what is recorded) and `core/decide` (what happens next).
"""

__version__ = "0.1.0"
