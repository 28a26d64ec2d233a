"""Laws of single calls: intents, keys, outcomes, retries (I1 to I11)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from runner.core import events as e
from tests.laws.lives import items_around
from tests.laws.places import are_beside
from tests.laws.register import action_of, law, named
from tests.laws.story import FORWARD, WRITES, CallName, Story, Try


@law("I1")
def intent_comes_first(story: Story) -> Iterator[str]:
    """Nothing reaches a receiver whose intent was not durable."""
    for touch in story.ledger.touches:
        if touch.intent not in story.events[: touch.durable]:
            yield f"{named(touch.intent)} left before its intent was in the log"


@law("I2")
def keys_are_stable_and_disjoint(story: Story) -> Iterator[str]:
    """One key for all attempts of a generation, no key for two calls, a new generation only by a person."""
    owner: dict[str, tuple[object, ...]] = {}
    keys: dict[tuple[object, ...], str] = {}
    for each in story.tries:
        intent = each.intent
        if intent.purpose in ("lookup", "undo_lookup") or (intent.purpose == "find" and intent.generation == 0):
            continue
        call = (*intent.call, intent.generation)
        if keys.setdefault(call, intent.key) != intent.key:
            yield f"{named(intent)} has another key than the attempt before"
        if owner.setdefault(intent.key, call) != call:
            yield f"{named(intent)} has the key of {owner[intent.key]}"
        if intent.attempt == 1 and intent.generation > 0 and not _a_person_raised(story, each):
            yield f"{named(intent)} is a new generation that nobody asked for"


def _a_person_raised(story: Story, each: Try) -> bool:
    around = [story.items[item].event.generation for item in items_around(each.intent.step) if item in story.items]
    if each.intent.generation == max(around, default=0):
        return True
    before = [t.seq for t in story.tries if t.intent.call == each.intent.call and t.seq < each.seq]
    if story.started.continues and not before:
        return True
    return any(
        question.choice in ("did_not", "retry") and max(before, default=0) < question.gone < each.seq
        for question in story.questions
        if question.event.step == each.intent.step
    )


@law("I3")
def a_key_is_bound_to_one_request(story: Story) -> Iterator[str]:
    """The same key carries the same request, and the bytes that arrive are the ones that were hashed."""
    seen: dict[tuple[str, str], str] = {}
    for each in story.tries:
        if each.intent.purpose in WRITES:
            known = seen.setdefault((each.intent.purpose, each.intent.key), each.intent.request_hash)
            if known != each.intent.request_hash:
                yield f"{named(each.intent)} sends another request under the same key"
    for touch in story.ledger.touches:
        if touch.hash != touch.intent.request_hash:
            yield f"{named(touch.intent)} sent other bytes than were hashed"


@law("I4")
def an_effect_happens_once(story: Story) -> Iterator[str]:
    """No key has two effects."""
    for effect in story.ledger.landed:
        same = story.ledger.of_key(effect.intent.key, effect.intent.purpose)
        if len(same) > 1 and same[0] is effect:
            yield f"{named(effect.intent)} had {len(same)} effects"


@law("I4b")
def a_key_is_not_used_past_its_life(story: Story) -> Iterator[str]:
    """A keyed call that may have happened is not sent again when the service may have forgotten its key."""
    for each in story.tries:
        action = action_of(story, each.intent)
        first = _first_in_doubt(story, each)
        if each.intent.purpose in WRITES and first is not None:
            last = first.intent.at + action.key_life * 95 // 100
            if action.effect == "keyed" and each.intent.at + each.intent.limit > last:
                yield f"{named(each.intent)} was sent past the key's life"


def _first_in_doubt(story: Story, each: Try) -> Try | None:
    """The generation's first attempt, when the call is in doubt as this attempt begins."""
    for doubt in story.doubts:
        same = doubt.call == each.intent.call and doubt.generation == each.intent.generation
        if same and doubt.covers(each.seq):
            return next(t for t in story.calls[doubt.call] if t.intent.generation == doubt.generation)
    return None


@law("I5")
def no_orphans_no_phantoms(story: Story) -> Iterator[str]:
    """Every effect has its intent; every applied outcome has its effect."""
    intents = {(t.intent.key, t.intent.purpose) for t in story.tries}
    for effect in story.ledger.landed:
        if (effect.intent.key, effect.intent.purpose) not in intents:
            yield f"{named(effect.intent)} has an effect and no intent"
    for each in story.tries:
        is_done = each.intent.purpose in WRITES and isinstance(each.outcome, e.CallApplied)
        if is_done and not story.ledger.of_key(each.intent.key, each.intent.purpose):
            yield f"{named(each.intent)} is recorded as applied, and nothing happened"


@law("I5b")
def the_log_knows_every_effect(story: Story) -> Iterator[str]:
    """At the end no effect is unknown to the log, unless a person took the run over or was wrong."""
    if story.finish is None or story.taken_over or not story.is_honest:
        return
    for effect in story.ledger.landed:
        known = story.applied.get(effect.intent.call)
        if known is None or (known[1].key != effect.intent.key):
            by_hand = [
                q for q in story.questions if q.event.step == effect.intent.step and q.choice in ("done", "stands")
            ]
            if effect.intent.purpose == "undo" and by_hand:
                continue
            yield f"{named(effect.intent)} had an effect, and the log does not know"


@law("I6")
def unknown_is_never_guessed_away(story: Story) -> Iterator[str]:
    """In doubt nothing goes forward but other branches, nothing is undone over it, and the run does not end."""
    for doubt in story.doubts:
        path, purpose, _ = doubt.call
        for each in story.tries:
            if not doubt.covers(each.seq):
                continue
            intent = each.intent
            if intent.purpose in FORWARD and intent.step != path and not are_beside(story.bundle, intent.step, path):
                yield f"{named(intent)} went on while {path} was in doubt"
            if intent.call == doubt.call and intent.generation != doubt.generation:
                yield f"{named(intent)} is a new generation although nobody knows what became of the last"
            if intent.call == doubt.call and action_of(story, intent).effect != "keyed":
                yield f"{named(intent)} was sent again although it may have happened"
        if story.finished and doubt.covers(story.finished) and not story.taken_over:
            answers = [q.choice for q in story.questions if q.event.step == path and q.choice in ("done", "stands")]
            if purpose == "do" or not answers:
                yield f"the run ended while {path}/{purpose} was in doubt"


@law("I7")
def once_is_once(story: Story) -> Iterator[str]:
    """Of the attempts of one generation of class once at most one may have had an effect, and it is the last."""
    for name, tries in story.calls.items():
        step = story.bundle.step(name[0])
        action = action_of(story, tries[0].intent)
        can_ask = action.has_lookup or (step.find is not None and name[1] == "do")
        if name[1] not in WRITES or action.effect != "once" or can_ask:
            continue
        for before, after in pairwise(tries):
            same = before.intent.generation == after.intent.generation
            if same and not isinstance(before.outcome, e.CallRefused | e.CallNotSent):
                yield f"{named(after.intent)} follows an attempt that may have had an effect"


@law("I8")
def not_sent_is_proof(story: Story) -> Iterator[str]:
    """What is recorded as not sent reached nobody; what is recorded as refused did nothing."""
    touched = {t.intent.guard for t in story.ledger.touches}
    landed = {each.intent.guard for each in story.ledger.landed}
    for each in story.tries:
        if isinstance(each.outcome, e.CallNotSent) and each.intent.guard in touched:
            yield f"{named(each.intent)} is recorded as not sent, and bytes arrived"
        if isinstance(each.outcome, e.CallRefused) and each.intent.guard in landed:
            yield f"{named(each.intent)} is recorded as refused, and had an effect"


@law("I9")
def an_outcome_is_write_once(story: Story) -> Iterator[str]:
    """One outcome for each attempt, and only for an attempt; a finished step never runs again."""
    seen: set[str] = set()
    intended: set[object] = set()
    ended: dict[str, int] = {}
    for seq, event in story.numbered():
        if isinstance(event, e.CallIntended):
            intended.add((event.call, event.generation, event.attempt))
            if event.purpose in (*FORWARD, "find") and event.step in ended:
                yield f"{named(event)} runs a step that ended at {ended[event.step]}"
        if isinstance(event, e.OutcomeEvent):
            if event.guard in seen:
                yield f"{named(event)} has two outcomes"
            seen.add(str(event.guard))
            if (event.call, event.generation, event.attempt) not in intended:
                yield f"{named(event)} has an outcome and no intent"
        if isinstance(event, e.StepSkipped | e.RecordFound | e.DraftRecorded):
            ended[event.step] = seq
        if isinstance(event, e.StepFailed) and event.goes_on:
            ended[event.step] = seq
    for name, (known, _) in story.applied.items():
        for each in story.calls[name]:
            if each.seq > known and name[1] in (*FORWARD, "undo"):
                yield f"{named(each.intent)} was sent after the call had been applied"


@law("I9b")
def retries_keep_the_rules(story: Story) -> Iterator[str]:
    """No more tries than allowed, none after a final no, none before the service's own pause is over."""
    for name, tries in story.calls.items():
        if name[1] not in (*FORWARD, "undo"):
            continue
        step = story.bundle.step(name[0])
        words = step.retry if name[1] in FORWARD else step.compensate and step.compensate.retry
        action = action_of(story, tries[0].intent)
        default = 5 if action.effect == "read" else action.retry.tries if action.retry else 4
        allowed = (words.tries if words else None) or default
        never = (words.never_on if words else frozenset()) or (action.retry.never_on if action.retry else frozenset())
        for each, after in zip(tries, [*tries[1:], None], strict=True):
            asked = allowed * (1 + _asked_again(story, name, each.seq))
            generation = each.intent.generation
            before = [t for t in tries if t.seq < each.seq and t.intent.generation == generation]
            late = sum(_was_late(t.outcome) for t in before)
            if each.intent.attempt - late > asked:
                yield f"{named(each.intent)} is one try too many (allowed {asked})"
            if after is not None and after.intent.generation == each.intent.generation:
                yield from _may_follow(each, after, never)


def _was_late(outcome: e.Event | None) -> bool:
    """The engine itself came too late to send it."""
    return isinstance(outcome, e.CallNotSent) and outcome.reason == "late"


def _asked_again(story: Story, name: CallName, before: int) -> int:
    """How often a person had the service asked once more about this call: each time the tries begin anew."""
    about = {
        event.handoff
        for event in story.events
        if isinstance(event, e.HandedOff) and (event.step, event.purpose, event.part) == name
    }
    return sum(
        isinstance(event, e.HandOffResolved) and event.choice == "again" and event.handoff in about
        for seq, event in story.numbered()
        if seq < before
    )


def _may_follow(each: Try, after: Try, never: frozenset[str]) -> Iterator[str]:
    outcome = each.outcome
    if isinstance(outcome, e.CallRefused) and outcome.reason not in {"rate_limited", "unavailable"} - never:
        yield f"{named(after.intent)} follows a final refusal ({outcome.reason})"
    if _was_late(outcome):
        if outcome is not None and after.intent.at < outcome.at + 1_000:
            yield f"{named(after.intent)} follows at once on one that the engine was too busy for"
    elif isinstance(outcome, e.CallNotSent) and "not_sent" in never:
        yield f"{named(after.intent)} follows a not_sent that is never to be tried again"
    pause = getattr(outcome, "retry_after", None)
    if outcome is not None and pause is not None and after.intent.at < outcome.at + pause:
        yield f"{named(after.intent)} came before the pause the service asked for was over"


@law("I6b")
def a_lookup_waits_its_delay(story: Story) -> Iterator[str]:
    """A look-up asks no sooner than the attempt's limit and the declared delay."""
    for each in story.tries:
        if each.intent.purpose not in ("lookup", "undo_lookup"):
            continue
        purpose = "undo" if each.intent.purpose == "undo_lookup" else "do"
        about = [t for t in story.calls[(each.intent.step, purpose, each.intent.part)] if t.seq < each.seq][-1]
        due = about.intent.at + about.intent.limit + action_of(story, about.intent).lookup_delay
        if each.intent.at < due:
            yield f"{named(each.intent)} asks {due - each.intent.at} ms too early"


@law("I11")
def a_lost_engine_says_nothing(story: Story) -> Iterator[str]:
    """Every attempt of a run that ended has an outcome; None found after a take-over goes to a person."""
    for each in story.tries:
        if each.outcome is None and story.finished:
            yield f"{named(each.intent)} has no outcome although the run ended"
    for name, tries in story.calls.items():
        for each, after in pairwise(tries):
            was_lost = isinstance(each.outcome, e.CallUnknown) and each.outcome.take_over
            same = each.intent.generation == after.intent.generation
            if name[1] in WRITES and was_lost and same and action_of(story, after.intent).effect != "keyed":
                yield f"{named(after.intent)} was sent again after its sender was lost, without a person"
