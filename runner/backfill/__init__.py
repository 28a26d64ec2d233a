"""Once for each row of a file: the rows are read and checked, then their runs are started or joined, then reported on.

May import everything below the doors; home of openpyxl. Begin with `files` (a file as rows), then `cells` and `columns`
(what a row gives to the flow), `items` (all rows, checked and kept), `going` (their runs) and `report`.
"""
