"""What there is to tell of a run, in words and the same on every door: the command line, the pages, the mails.

May import floors 0 to 5; no door and nothing that prints. Begin with `story` (everything there is to tell of one run),
then `lines` (its log, line by line), `questions` (what is asked of a person), `words`, `sent` and `times`.
"""
