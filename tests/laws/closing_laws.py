"""Laws of failing: the barrier, the order of compensations, what stands, who is asked (I13 to I18, I31, I33)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import takewhile

from runner.core import events as e
from tests.laws.flows import NEVER_SUCCEEDS
from tests.laws.lives import as_written, heads, is_inside
from tests.laws.places import are_beside, standing_in
from tests.laws.register import law, named
from tests.laws.story import FORWARD, WRITES, CallName, Story, Try


def _first_undos(story: Story) -> list[Try]:
    """The first attempt of each step's compensation."""
    seen: dict[str, Try] = {}
    for each in story.tries:
        if each.intent.purpose == "undo":
            seen.setdefault(each.intent.step, each)
    return list(seen.values())


@law("I13")
def only_what_happened_is_compensated(story: Story) -> Iterator[str]:
    """No compensation for what was found, refused, not sent, or is in doubt; what was adopted is not cancelled."""
    adopted = {event.step for event in story.events if isinstance(event, e.CallSettled) and event.adopted}
    found = {event.step for event in story.events if isinstance(event, e.RecordFound)}
    if story.started.continues:
        return
    for each in story.tries:
        if each.intent.purpose != "undo":
            continue
        if not story.applied_before(each.intent.step, each.seq):
            yield f"{named(each.intent)} undoes what was never applied"
        if each.intent.step in found:
            yield f"{named(each.intent)} undoes a record that was only found"
        if each.intent.step in adopted and each.intent.word == "cancel":
            yield f"{named(each.intent)} cancels a record that may be somebody else's"


@law("I14")
def newest_start_first(story: Story) -> Iterator[str]:
    """A compensation starts only when everything newer in its scope has had its turn (what is in doubt is another law's,
    I17). What one called flow did stands together. Branches that are made good at once do not wait for each other.
    """
    if story.started.continues:
        return
    for first in _first_undos(story):
        closing = story.closing_over(first.intent.step, first.seq)
        if closing is None:
            continue
        order = story.order_in(closing.scope, first.seq)
        for path, place in order.items():
            if first.intent.step not in order or path == first.intent.step or place >= order[first.intent.step]:
                continue
            if are_beside(story.bundle, first.intent.step, path, at_once=True):
                continue
            in_doubt = any(d.call[:2] == (path, "do") and d.covers(first.seq) for d in story.doubts)
            if not in_doubt and not _had_its_turn(story, path, first.seq):
                yield f"{named(first.intent)} starts before the newer {path} was made good"


def _had_its_turn(story: Story, path: str, seq: int) -> bool:
    """The step's compensation was begun, skipped or handed off before this place, and is not under way."""
    turns = (e.CompensationSkipped, e.CompensationFailed)
    is_asked_about = path + ":undo"
    for place, event in story.numbered():
        if place >= seq:
            return False
        if isinstance(event, turns) and event.step == path:
            return True
        if isinstance(event, e.ApprovalRequested) and event.approval == is_asked_about:
            return True
        if isinstance(event, e.HandedOff) and event.step == path and event.kind.startswith(("compensation", "request")):
            return True
        if isinstance(event, e.CallApplied | e.CallSettled) and event.call[:2] == (path, "undo"):
            parts = [t.intent.parts for t in story.calls[event.call]]
            done = [n for n, (at, _) in story.applied.items() if n[:2] == (path, "undo") and at < seq]
            if len(done) >= max(parts):
                return True
    return False


@law("I15")
def a_compensation_happens_once(story: Story) -> Iterator[str]:
    """Each part of a compensation is applied once, under a key that no forward call has."""
    forward = {t.intent.key for t in story.tries if t.intent.purpose in FORWARD}
    landed: dict[object, int] = {}
    for each in story.tries:
        if each.intent.purpose == "undo" and each.intent.key in forward:
            yield f"{named(each.intent)} has the key of a forward call"
    for effect in story.ledger.landed:
        if effect.intent.purpose == "undo":
            landed[effect.intent.call] = landed.get(effect.intent.call, 0) + 1
    for call, count in landed.items():
        if count > 1 and story.is_honest:
            yield f"the compensation {call} happened {count} times"


@law("I16")
def nothing_goes_forward_after_the_barrier(story: Story) -> Iterator[str]:
    """After ForwardClosed of a scope no forward intent in it; CompensationBegun when none is open; no forward byte after
    that; and no compensation without it.
    """
    for each in story.tries:
        path, purpose = each.intent.step, each.intent.purpose
        in_doubt = any(d.covers(each.seq) for d in story.doubts if d.call == (path, "do", each.intent.part))
        over = story.closing_over(path, each.seq)
        if over is not None and (purpose in FORWARD or (purpose == "find" and not in_doubt)):
            yield f"{named(each.intent)} was intended after forward was closed"
        if purpose == "undo" and over is None and not story.started.continues:
            yield f"{named(each.intent)} was intended although forward was never closed"
        elif purpose == "undo" and (over is not None or not story.started.continues):
            is_begun = any(is_inside(path, c.scope) and 0 < c.begun < each.seq for c in story.closings.values())
            if not is_begun:
                yield f"{named(each.intent)} was intended before compensation had begun"
        for closing in story.closings.values():
            is_forward = purpose in (*FORWARD, "find") and is_inside(path, closing.scope)
            if is_forward and each.seq < closing.begun and not closing.begun > each.outcome_seq > 0:
                yield f"compensation began while {named(each.intent)} was open"
    for touch in story.ledger.touches:
        for closing in story.closings.values():
            is_forward = touch.intent.purpose in FORWARD and is_inside(touch.intent.step, closing.scope)
            if is_forward and 0 < closing.begun <= touch.durable:
                yield f"a byte of {named(touch.intent)} left after compensation had begun"


@law("I16b")
def a_stop_here_undoes_nothing(story: Story) -> Iterator[str]:
    """After a stop, a close or a take-over no compensation is begun, and none is tried again."""
    places = [story.stopped_here, story.taken_over]
    places += [closing.seq for closing in story.closings.values() if not closing.event.compensate]
    since = min((place for place in places if place), default=0)
    for each in story.tries:
        if since and each.seq > since and each.intent.purpose == "undo":
            yield f"{named(each.intent)} was intended although the run stops here"


@law("I17")
def doubt_is_settled_before_it_is_undone(story: Story) -> Iterator[str]:
    """No compensation of a step that is in doubt, nor of anything older unless its owner lets the rest go on."""
    for doubt in story.doubts:
        path, purpose, _ = doubt.call
        if purpose != "do":
            continue
        for each in story.tries:
            if each.intent.purpose != "undo" or not doubt.covers(each.seq):
                continue
            closing = story.closing_over(each.intent.step, each.seq)
            if closing is None or not is_inside(path, closing.scope):
                continue
            had_begun = any(t.intent.call == each.intent.call and t.seq < closing.seq for t in story.tries)
            order = story.order_in(closing.scope, each.seq)
            let_go = any(
                q.choice == "go_on" and q.gone < each.seq
                for q in story.questions
                if q.event.step == path and q.event.purpose
            )
            if each.intent.step == path:
                yield f"{named(each.intent)} undoes a step whose outcome nobody knows"
            elif are_beside(story.bundle, each.intent.step, path, at_once=True) or had_begun:
                continue
            elif each.intent.step in order and order[path] < order[each.intent.step] and not let_go:
                yield f"{named(each.intent)} is older than {path}, which is in doubt"


@law("I18")
def a_failed_compensation_is_seen(story: Story) -> Iterator[str]:
    """It is handed off at once, and the run never ends as compensated while something stands."""
    for seq, event in story.numbered():
        if isinstance(event, e.CompensationFailed):
            turn = takewhile(lambda after: after.kind_of_fact == "decision", story.events[seq:])
            asked = [after for after in turn if isinstance(after, e.HandedOff) and after.step == event.step]
            if not any(after.kind == "compensation_failed" and after.owner for after in asked):
                yield f"the failed compensation of {event.step} was handed to nobody"
    finish = story.finish
    if finish is not None and finish.status == "compensated":
        if finish.stands:
            yield f"the run ends compensated while {', '.join(finish.stands)} stands"
        if any(word not in ("undone", "answered", "accepted") for word in dispositions(story).values()):
            yield "the run ends compensated although something stands"


@law("I18b")
def a_failed_compensation_halts_where_it_shall(story: Story) -> Iterator[str]:
    """Under `if_one_fails: stop` nothing older begins while a failed compensation waits for a person."""
    if story.bundle.flow.on_failure.if_one_fails != "stop":
        return
    for first in _first_undos(story):
        closing = story.closing_over(first.intent.step, first.seq)
        order = story.order_in(closing.scope, first.seq) if closing is not None else {}
        for question in story.questions:
            if not order.keys() >= {first.intent.step, question.event.step}:
                continue
            is_older = order[question.event.step] < order[first.intent.step]
            gave_up = question.event.kind in ("compensation_failed", "request")
            if gave_up and are_beside(story.bundle, first.intent.step, question.event.step, at_once=True):
                continue
            if is_older and gave_up and question.is_open_at(first.seq):
                yield f"{named(first.intent)} began although {question.event.step} could not be made good"


# --- what stands ---------------------------------------------------------------------------------------------------


class _Effects:
    """What becomes of the applied effects, fact by fact."""

    def __init__(self, story: Story) -> None:
        self.words: dict[int, str] = {}
        self._paths: dict[int, str] = {}
        self._undone: dict[str, set[int]] = {}
        self._story = story
        self._known = {seq: (name, intent) for name, (seq, intent) in story.applied.items()}

    def read(self, seq: int, event: e.Event) -> None:
        if seq in self._known:
            self._applied(*self._known[seq])
        elif isinstance(event, e.CompensationSkipped):
            self._settle(event.step, "stands" if event.by else "accepted")
        elif isinstance(event, e.HandOffResolved) and self._story.question(event.handoff).answer is event:
            if event.choice in ("done", "stands"):
                self._settle(event.step, "by_hand" if event.choice == "done" else "stands")
        elif isinstance(event, e.RunFinished):
            for path in set(self._paths.values()):
                self._settle(path, "by_hand" if event.status == "closed" and self._story.taken_over else "stands")

    def _applied(self, name: CallName, intent: e.CallIntended) -> None:
        path, purpose, part = name
        if purpose == "do":
            self.words[intent.start_no], self._paths[intent.start_no] = "pending", path
        elif purpose == "undo":
            undone = self._undone.setdefault(path, set())
            undone.add(part)
            if len(undone) == intent.parts:
                self._settle(path, "undone" if intent.word == "cancel" else "answered")

    def _settle(self, path: str, word: str) -> None:
        for no, other in self._paths.items():
            if other == path and self.words[no] == "pending":
                self.words[no] = word


def dispositions(story: Story, before: int = 0) -> dict[int, str]:
    """What became of each applied effect, by start number, as the log says at its end, or `before` a place in it."""
    effects = _Effects(story)
    for seq, event in story.numbered():
        if before and seq >= before:
            break
        effects.read(seq, event)
    return effects.words


@law("I33")
def the_end_follows_from_what_stands(story: Story) -> Iterator[str]:
    """The end's name and its list are what the effects say."""
    finish = story.finish
    if finish is None or story.started.continues:
        return
    words = dispositions(story)
    if story.closed and not story.taken_over:
        yield from _shown_otherwise(story, words)
    wanted = _end(story, set(words.values()))
    if finish.status not in wanted:
        yield f"the run ends {finish.status}, and it is {' or '.join(wanted)}"


def _shown_otherwise(story: Story, words: Mapping[int, str]) -> Iterator[str]:
    """What stands is listed by its path, or by the path of a list that it stands in, in start order."""
    assert story.finish is not None
    shown = story.finish.stands
    names = {i.start_no: name[0] for name, (_, i) in story.applied.items() if name[1] == "do"}
    stands = list(dict.fromkeys(as_written(names[no]) for no in sorted(words) if words[no] == "stands"))
    for path in stands:
        if path not in shown and not set(heads(path)) & set(shown):
            yield f"the run does not say that {path} stands"
    for path in shown:
        if path not in stands and not any(is_inside(one, path) for one in stands):
            yield f"the run says that {path} stands"
    alone = [path for path in stands if path in shown]
    if alone != [path for path in shown if path in alone]:
        yield f"the run says that {shown} stands, and the order is {alone}"


def _end(story: Story, words: set[str]) -> tuple[str, ...]:
    if not story.closed:
        return ("drafted",) if story.started.mode == "draft" else ("closed",) if story.accepted else ("succeeded",)
    if story.taken_over:
        return ("closed",)
    closing = story.closings[""].event
    if story.stopped_here:
        return ("stopped",)
    if not closing.compensate:
        return ("closed",) if closing.cause == "person" else ("stopped",)
    if words & {"by_hand", "stands", "pending"}:
        return ("closed",)
    return ("compensated",) if words else ("failed",)


@law("I31")
def an_error_is_never_a_success(story: Story) -> Iterator[str]:
    """A run succeeds only when every step has ended, none in failure."""
    finish = story.finish
    if finish is None or finish.status not in ("succeeded", "drafted"):
        return
    asked = {event.handoff for event in story.events if isinstance(event, e.HandedOff) and event.kind == "outputs"}
    is_answered = any(
        isinstance(event, e.HandOffResolved) and event.handoff in asked and event.choice == "go_on"
        for event in story.events
    )
    if story.bundle.flow.id in NEVER_SUCCEEDS and story.is_honest and not is_answered:
        yield "the run succeeds although one of its elements has no answer"
    ended = {"": False}
    for seq, event in story.numbered():
        if isinstance(event, e.StepFailed):
            ended[event.step] = event.goes_on
            if not event.step:
                yield "the run succeeds although its outputs could not be made"
        elif (
            isinstance(
                event, e.StepSkipped | e.RecordFound | e.DraftRecorded | e.ScopeEnded | e.EventReceived | e.Emitted
            )
            or (isinstance(event, e.TimerFired) and event.timer == "wait")
            or (isinstance(event, e.HandOffResolved) and event.choice == "go_on")
            or (isinstance(event, e.ApprovalDecided) and event.answer == "yes")
        ):
            ended[event.step] = True
        elif isinstance(event, e.CallApplied | e.CallSettled) and event.purpose in FORWARD:
            parts = max(t.intent.parts for t in story.calls[event.call])
            done = [n for n, (at, _) in story.applied.items() if n[:2] == event.call[:2] and at <= seq]
            ended[event.step] = ended.get(event.step, False) or len(done) >= parts
    for path in _every_path(story):
        if not ended.get(path):
            yield f"the run succeeds although {path} has not ended well"


def _every_path(story: Story) -> Iterator[str]:
    """Every step of the run, of every item that was not left set aside, of every flow that was called."""
    calls = [event.step for event in story.events if isinstance(event, e.ScopeStarted) and event.kind == "call"]
    done = [path for path, item in story.items.items() if not item.is_aside]
    gone = [path for path, item in story.items.items() if item.is_aside]
    for scope in ("", *calls, *done):
        if not any(is_inside(scope, path) or scope == path for path in gone):
            yield from standing_in(story.bundle, scope)


# --- people --------------------------------------------------------------------------------------------------------


@law("ask")
def a_question_is_asked_once(story: Story) -> Iterator[str]:
    """No two open questions about one thing; none that its answer has settled is asked again."""
    for number, question in enumerate(story.questions):
        about = (question.event.step, question.event.purpose, question.event.part)
        for before in story.questions[:number]:
            same = (before.event.step, before.event.purpose, before.event.part) == about
            if same and before.is_open_at(question.seq):
                yield f"{question.event.handoff} asks what {before.event.handoff} asks already"
            is_final = before.choice in ("done", "stands", "take_over", "close")
            if same and is_final and before.gone < question.seq and before.event.kind == question.event.kind:
                yield f"{question.event.handoff} asks again what was answered by {before.choice}"
        if story.finished and question.gone == 0:
            yield f"{question.event.handoff} is open although the run has ended"


@law("let go")
def go_on_is_said_once(story: Story) -> Iterator[str]:
    """Whoever said "go on with the rest" is asked once more at the end, and then without that way out."""
    said: set[object] = set()
    for question in story.questions:
        about = (question.event.step, question.event.purpose, question.event.part)
        if about in said and "go_on" in question.event.choices:
            yield f"{question.event.handoff} offers to go on with the rest a second time"
        if question.choice == "go_on" and question.event.purpose in WRITES:
            said.add(about)


@law("hold")
def a_broken_run_holds_its_record(story: Story) -> Iterator[str]:
    """The record is held from the question's own commit until no question is open."""
    if not story.started.record or story.started.mode == "draft":
        return
    held = False
    for seq, event in story.numbered():
        asked = [q for q in story.questions if q.is_open_at(seq)]
        if isinstance(event, e.RecordHeld):
            held = True
        if isinstance(event, e.RecordReleased):
            held = False
            if asked:
                yield f"the record was released while {asked[0].event.handoff} was open"
        if isinstance(event, e.RunFinished) and held:
            yield "the run ended and still holds its record"
        before = [q for q in story.questions if q.seq < seq and (q.gone == 0 or q.gone >= seq)]
        if event.kind_of_fact == "report" and before and not held:
            yield f"{before[0].event.handoff} was open and the record free"


@law("pause")
def a_pause_starts_nothing(story: Story) -> Iterator[str]:
    """Between a pause and its end no call is intended."""
    paused = False
    for event in story.events:
        if isinstance(event, e.RunPaused):
            paused = True
        if isinstance(event, e.RunResumed | e.StopRequested):
            paused = False
        if paused and event.kind_of_fact == "decision":
            yield f"{type(event).__name__} was decided during a pause"
