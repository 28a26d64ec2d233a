"""A flow as a picture: steps from top to bottom, what each needs a yes for, and beside it how it is made good.

Begin with `plan` (what there is to see of each step, in words); `svg` draws it, `outline` writes it as text.
May import everything below the doors.
"""
