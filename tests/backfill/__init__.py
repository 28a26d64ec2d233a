"""A flow once for each row of a file: reading, checking, going, reporting."""
