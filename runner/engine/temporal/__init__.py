"""Runs carried by the workers of a Temporal cluster. It drives and decides nothing: the log is the truth.

Begin with `workflow` (when a run is carried on), then `engine` (who carries it). Nothing here is imported unless
amends.yaml names a cluster.
"""
