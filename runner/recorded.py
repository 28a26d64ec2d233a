"""What stands in logs, errors and connectors in English, and is shown to people: said in their language.

A fact is written once, by whoever found it out, long before it is known who will read it. So its sentence is looked for
here when it is shown; what is not here stays as it was written.
"""

from __future__ import annotations

import re
from functools import cache

from runner.tongue import _, marked, spoken

LONGEST = 600
"""Signs of a text that is looked for."""
_PLACE = re.compile(r"\{(\w+)\}")


def retold(text: str) -> str:
    """A recorded sentence in the reader's language, with whatever it quotes."""
    if spoken() == "en" or not text or len(text) > LONGEST:
        return text
    for pattern, sentence in _patterns():
        if found := pattern.fullmatch(text):
            return _(sentence, **{name: retold(value) for name, value in found.groupdict().items()})
    return text


@cache
def _patterns() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Those with the most words of their own first."""
    by_length = sorted(RECORDED, key=lambda one: len(_PLACE.sub("", one)), reverse=True)
    return tuple((re.compile(_pattern(one)), one) for one in by_length)


def _pattern(sentence: str) -> str:
    parts = _PLACE.split(sentence.removesuffix("."))
    own = (re.escape(part) if number % 2 == 0 else f"(?P<{part}>.+?)" for number, part in enumerate(parts))
    return "".join(own) + r"\.?"


RECORDED = (
    marked("stopped by {by}"),
    marked("No answer came."),
    marked("It did not happen."),
    marked("It was refused."),
    marked("It gave up."),
    marked("{count} of {total} were refused: {why}"),
    marked("{count} records match; it is not clear which one is ours."),
    marked("{count} records match {fields}."),
    marked("It could not be looked up: {why}"),
    marked("It could not be looked for: {why}"),
    marked("The service knows nothing of it, but its sender was stopped."),
    marked("The service knows nothing of it."),
    marked("The engine was stopped before an answer came."),
    marked("The engine that made this call was stopped before its answer was recorded."),
    marked("The engine was stopped before it was done."),
    marked("The engine was too busy to send in time."),
    marked("The connector broke off: {error}."),
    marked("They wait for each other: {links}."),
    marked("Personal data of this run was erased, so it cannot go on by itself."),
    marked("{flow} cannot be started: {why}"),
    marked("Nobody answered in time."),
    marked("{by} said no."),
    marked("{by} said no: {comment}"),
    marked("{by} asked for changes: {wish}"),
    marked("Make good what step {step} did?"),
    marked("Step {step} needs an approval, and nobody was asked."),
    marked("Let {agent} do this: {action}?"),
    marked("The limit of tool calls is reached ({called}, limits: calls), and it wants another one: {tool}."),
    marked("It has worked for {spent} s, and may for {most} s (limits: within)."),
    marked("Its model has cost as much as it may, {cost} (limits: cost)."),
    marked("Nobody who must approve this can be asked ({names})."),
    marked("{count} of the {needs} who must approve this can be asked ({names})."),
    marked("what would be sent, or where it goes, has changed since"),
    marked("{person} may not approve this any more"),
    marked("step {step} was not shown"),
    marked("it was used for step {step} already"),
    marked("it was good until {time}"),
    marked("the item has changed"),
    marked("1 item was set aside: {items}."),
    marked("{count} items were set aside: {items}."),
    marked("{count} items were set aside: {items} and {more} more."),
    marked("This step says nothing of how it is made good."),
    marked("It was found after our attempt and may not be ours, so it is not cancelled by itself."),
    marked("The flow says a person makes this good."),
    marked("{event} did not come in time."),
    marked("The flow hands over here."),
    marked("waits for {record}, which {by} works on; that one waits for {needs}"),
    marked("waits for {record}, which {by} works on"),
    marked("waits for {record}, which {by} holds until {needs} has answered"),
    marked("waits for {record}, which {by} holds"),
    marked("the folder is a copy of {path}"),
    marked("the folder was used on another machine before, as {path}"),
    marked("the database was copied to another place ({here} instead of {there})"),
    marked("the database has a history, and its anchor file is missing"),
    marked("the database is not the one that was used here before"),
    marked("the database ends at commit {last}, and commit {known} was made here before"),
    marked("it was put back from {path}"),
    marked("run {run} ({flow})"),
    marked("run {run}"),
    marked("an answer"),
    marked("a timer"),
    marked("the event {event}"),
    marked("an approval by {names}"),
    marked("a place at {name}"),
    marked("the release of {name} (held by {by})"),
    marked("{count} of {total} items of {list} wait for a person"),
    marked("{collection} has no record {id}"),
    marked("{collection} has a record {id} already"),
    marked("{record} is not in quarantine"),
    marked("{host} gave no complete answer within {time} s"),
    marked("{host} could not be connected to within {time} s"),
    marked("{host} did not answer within {time} s"),
    marked("no answer came within {time} s"),
    marked("the connection to {host} broke before a complete answer came"),
    marked("{host} cannot be connected to"),
    marked("the connection to {host} broke before it answered"),
    marked("{host} cannot be reached or broke off before the message"),
    marked("the name {host} has no address"),
    marked("the certificate of {host} is not one that is trusted"),
    marked("no encrypted connection to {host} could be made"),
    marked("{host} answered {status}, and {why}"),
    marked("{host} answered {status}"),
    marked("{host} said {answer}"),
    marked("Asks a URL"),
    marked("Sends a {method}"),
    marked("Sends a request with any method"),
    marked("Sends a mail"),
    marked("A mail that has gone out cannot be taken back."),
    marked("Adds a record to one of our own tables"),
    marked("Changes fields of a record of ours"),
    marked("What the fields held before is not kept; set them again by hand."),
    marked("Takes a record out of one of our own tables"),
    marked("A deleted record is gone; create it again by hand."),
    marked("Reads one record of ours"),
    marked("Reads the records of ours whose fields are those given in `where`"),
    marked("Sets a record aside, with the reason, until a person lets it go"),
    marked("Lets a record go that was set aside"),
    marked("Says whether a record is set aside"),
    marked("you have decided this already"),
    marked("say what should be changed"),
    marked("you have said yes to this already"),
    marked("the time to decide is over; silence was a no, and nothing was sent"),
    marked("what would be sent has changed since you looked at it; look at it again"),
    marked("you cannot decide this: {why}"),
    marked("you have started this run"),
    marked("it is asked of {names}"),
    marked("this is decided only by somebody who has signed in: open the page, sign in, and decide there"),
    marked("look first at what you wrote as it will be sent, and decide then"),
    marked("this was decided already: {who} said yes"),
    marked("this was decided already: {who} said no"),
    marked("this approval has lapsed, and it is asked again"),
    marked("this was withdrawn: the run does not go that way any more"),
    marked("nothing of this may be left out"),
    marked("nothing would be left; say no instead"),
    marked("this cannot be sent: {why}"),
    marked("a password has {count} characters or more; a few words in a row are easy to keep"),
    marked(
        "this password is guessed first: it is little more than usual words, names and signs in a row; "
        "a few words that do not belong together are easy to keep"
    ),
    marked("{record} of run {run} is not set aside (any more)"),
    marked(
        'the run key "{key}" of {flow} belongs to run {run}, which was started with other inputs; '
        "give this start a key of its own"
    ),
    marked("there is no run {run}"),
    marked("is required and has no value"),
    marked("must not be empty"),
    marked("there is no such field, there are {names}"),
    marked("must be {what}, not {value}"),
    marked("must be at least {least}, not {value}"),
    marked("must be at most {most}, not {value}"),
    marked("must be one of {names}, not {value}"),
    marked("must be in {currency}, not in {other}"),
    marked("has {count} characters, it needs at least {least}"),
    marked("has {count} characters, at most {most} are allowed"),
    marked("must be yes or no (true or false), not {value}"),
    marked("{value} has no currency: write it as {example}"),
    marked("{value} is not an amount of money: write it as {example}"),
    marked("{value} is not a phone number: write it as {example}"),
    marked("{value} is not a web address: write it as {example}"),
    marked("{value} is not a mail address: write it as {example}"),
    marked("{value} has no domain behind the @: write it as {example}"),
    marked("{value} is not a number"),
    marked("{value} is not a number, write it without separators"),
    marked("is too large a number"),
    marked("{value} has more digits than a number can keep"),
    marked("{value} is not an amount: {currency} has {most}"),
    marked("no decimals"),
    marked("at most {count} decimals"),
    marked("{value} is not a date: write it as {example}"),
    marked("{value} is not a day of the calendar or a time of the clock"),
    marked("{value} has a time of day, a date is written as {example}"),
    marked("{value} has no time of day, write it as {example}"),
    marked("{value} is not a time: write it as {example}"),
    marked("{value} is not a time of the clock"),
    marked("must be {what} on one line, without line breaks"),
    marked("{value} is not one bare mail address: write it as {example}"),
    marked("{value} has letters that mail servers do not carry in an address"),
    marked("{value} has letters that mail servers do not carry in an address: write it as {example}"),
    marked("{value} is too short, it needs at least {least} characters"),
    marked("{value} is too long, at most {most} characters are allowed"),
    marked("{value} does not fit the pattern {pattern}"),
    marked("must have at least {least} items"),
    marked("must have at most {most} items"),
    marked('"{name}" is empty'),
    marked('"{name}" is not one of the kinds {kinds}'),
    marked('"{name}" has {size} bytes, at most {most} are allowed'),
    marked('the content of "{name}" is not what its name says'),
    marked("a whole number"),
    marked("a number"),
    marked("a text"),
    marked("a list"),
    marked("a record"),
    marked("a date such as {example}"),
    marked("a time such as {example}"),
    marked("a date and time such as {example}"),
    marked("an amount of money"),
    marked("a mail address"),
    marked("a phone number"),
    marked("a web address"),
    marked("the number {number}"),
    marked('the text "{text}"'),
    marked(
        "the disk is full: {path} cannot grow ({free} free on its disk); free some space and try again, nothing of "
        "this write was kept"
    ),
    marked("{path} cannot be written ({name}); make the file and its folder writable for this user"),
    marked(
        "{path} has been locked by another program for {busy} s; close that program (a database browser, a copy under "
        "way) and try again"
    ),
    marked(
        "{path} could not be read or written: the disk or a size limit refused it ({name}); look at the disk ({free} "
        "free) and try again"
    ),
    marked("{path} was moved or deleted while in use; put it back and start again"),
    marked(
        "no new run is started: only {left} are free on the disk of {path}, and {floor} are kept for the runs under "
        "way; free some space, or remove ended runs (`amends db prune`)"
    ),
)
"""Every one stands, with other names for its places, where it is written: tests/web/test_tongue.py looks for it."""
