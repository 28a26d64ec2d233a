"""What is told of scopes: lists, their items, called flows. Of a long list only the items that concern somebody."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from runner.core import events as e
from runner.core.paths import is_in, list_of
from runner.language.bundle import Bundle
from runner.recorded import retold
from runner.store.abridged import FEW, SEEN, Abridged
from runner.telling.tree import Line, Tree
from runner.telling.words import Sign, bare, plain, sentence
from runner.tongue import _, marked, several

WAIT, WAITS = marked("{count:,} wait for a person"), marked("{count:,} waits for a person")


class Told:
    """One scope and the line it is told by. `status`: open, done, failed, aside, accepted; `why` goes with it.

    `undoes`: it is told again, as it is made good.
    """

    def __init__(self, name: str, *, undoes: bool = False) -> None:
        self.name = name
        self.undoes = undoes
        self.head = 0
        self.status = "open"
        self.why = ""


class Listed(Told):
    """A list: its items by how they are, by their paths where they can still change.

    `done` and `made_good` are those that the log was read without.
    """

    def __init__(
        self, name: str, total: int = FEW + 1, *, done: int = 0, made_good: int = 0, undoes: bool = False
    ) -> None:
        super().__init__(name, undoes=undoes)
        self.total = total
        self.done = done
        self.made_good = made_good
        self.at_once = 1
        self.catches = False
        self.shown: set[str] = set()
        self.open: set[str] = set()
        self.failed: set[str] = set()
        self.aside: set[str] = set()
        self.accepted: set[str] = set()
        self.undoing: set[str] = set()

    @property
    def is_long(self) -> bool:
        """Its items are folded."""
        return self.total > FEW

    def is_seen(self, item: str) -> bool:
        """An item that somebody may look for: the first of them are told whole, whatever becomes of them."""
        if len(self.shown) < SEEN:
            self.shown.add(item)
        return item in self.shown

    def text(self, asked: Collection[str], to_come: Collection[str], *, goes_on: bool) -> str:
        """How far it is. `asked` are the items that a person is asked about, `to_come` those of which more is to be
        made good than that.
        """
        if self.undoes:
            return self._undone(asked, to_come)
        items = several("{count:,} item", "{count:,} items", self.total)
        if self.total == self.done:
            form = marked("{items}: all done.") if self.total > 1 else marked("{items}: done.")
            return _(form, items=items) if self.total else _("No items.")
        waits = sum(item in asked for item in self.open)
        begun = self.done + sum(map(len, (self.open, self.failed, self.aside, self.accepted)))
        counts = (
            (self.done, marked("{count:,} done")), (len(self.failed), marked("{count:,} failed")),
            (len(self.aside), marked("{count:,} set aside")), (len(self.accepted), marked("{count:,} left set aside")),
            (waits, WAIT if waits > 1 else WAITS),
            (len(self.open) - waits, marked("{count:,} under way") if goes_on else marked("{count:,} had begun")),
            (self.total - begun, marked("{count:,} to come") if goes_on else marked("{count:,} not begun")),
        )  # fmt: skip
        form = marked("{items}, {at_once} at once: {counts}.") if self.at_once > 1 else marked("{items}: {counts}.")
        return _(form, items=items, at_once=self.at_once, counts=_(", ").join(_counted(counts)))

    def _undone(self, asked: Collection[str], to_come: Collection[str]) -> str:
        waits = sum(item in asked and item not in to_come for item in self.undoing)
        told = [several("{count:,} item", "{count:,} items", self.made_good)] if self.made_good or not waits else []
        if waits:
            told += [
                several(
                    "{count:,} item but for what waits for a person",
                    "{count:,} items but for what waits for a person",
                    waits,
                )
            ]
        if moves := len(self.undoing) - waits:
            told += [_("{count:,} under way", count=moves)]
        return _("Made good: {items}.", items=_(", ").join(told))

    def sign(self, asked: Collection[str]) -> Sign:
        """The sign of its line."""
        if self.undoes:
            return "good"
        if self.failed or self.aside:
            return "part" if self.catches else "failed"
        return "done" if self.done + len(self.accepted) == self.total else "wait"


class Agent(Told):
    """An agent: how many turns of its model and calls of tools there were."""

    turns = 0
    calls = 0

    def text(self) -> str:
        """What it did so far."""
        if self.undoes:
            return _("What its tools did is made good.")
        turns = several("{count:,} turn of its model", "{count:,} turns of its model", self.turns)
        calls = several("{count:,} tool call", "{count:,} tool calls", self.calls)
        return _("Agent: {turns}, {calls}.", turns=turns, calls=calls)


ITEM: dict[str, tuple[Sign, str]] = {
    "open": ("wait", marked("Under way.")), "done": ("done", marked("Done.")),
    "failed": ("failed", marked("Failed: {why}")), "aside": ("failed", marked("Set aside: {why}")),
    "accepted": ("note", marked("Left set aside: {why}")), "undone": ("good", marked("What it did is made good.")),
    "undone failed": ("failed", marked("Could not be made good: {why}")),
    "asked": ("person", marked("Waits for a person.")),
}  # fmt: skip


def _counted(counts: Iterable[tuple[int, str]]) -> Iterator[str]:
    return (_(form, count=count) for count, form in counts if count)


class Scopes:
    """Tells the scopes of one run into its tree. Nothing in `whole` (a path; "" is the run) is folded.

    `left_out` says how many items of each list the log is read without.
    """

    def __init__(self, bundle: Bundle, tree: Tree, whole: str | None, left_out: Abridged) -> None:
        self.bundle = bundle
        self.names: dict[str, str] = {}
        self._tree = tree
        self._whole = whole
        self._left_out = left_out
        self._told: dict[str, Told] = {}
        self._undoes = False

    def names_of(self, step: str) -> list[str]:
        """What the parts of a path are called: the items by their names."""
        parts = step.split("/")
        paths = ("/".join(parts[: number + 1]) for number in range(len(parts)))
        return [self.names.get(path, part) for path, part in zip(paths, parts, strict=True)]

    def branch(self, step: str) -> str:
        """The branch of a parallel that a step stands in, as far as the list around it does not stand in it too."""
        scope, _, name = step.rpartition("/")
        names = self.bundle.flow_at(scope).branch_names() if not name.isdigit() else {}
        own, outer = names.get(name, ""), names.get(list_of(scope).rpartition("/")[2], "")
        return own.removeprefix(outer).removeprefix("/") if outer else own

    def around(self, step: str) -> Iterator[str]:
        """The scopes around a step that have a line of their own, innermost first: what an agent does has none."""
        return (path for path in _around(step) if not self.is_move(path))

    def is_move(self, path: str) -> bool:
        """A turn of an agent's model, or a call of one of its tools."""
        each = self.bundle.find(list_of(path)) if list_of(path) else None
        return each is not None and each.verb == "agent"

    # -- what the log says --

    def started(self, event: e.ScopeStarted, seq: int) -> str:
        """A list, an item, a called flow, an agent or something that it does begins. Why not, of a tool's call that
        does not fit; else empty."""
        step = event.step
        if event.kind == "each":
            total = len(event.value) if isinstance(event.value, list) else 0
            each = self.bundle.find(step)
            listed = self._told[step] = Listed(step.rpartition("/")[2], total, done=self._left_out.done.get(step, 0))
            listed.at_once, listed.catches = each.at_once if each is not None else 1, event.catches
            self._begin(step, event.at, seq)
        elif event.kind == "item":
            self.names[step] = plain(event.name)
            listed = self._listed(step)
            listed.aside.discard(step)
            listed.open.add(step)
            self.ensure(step, event.at, seq)
            self._told[step] = Told(self.names[step])
            self._begin(step, event.at, seq)
        elif event.kind in ("call", "agent"):
            self.ensure(step, event.at, seq)
            before = self._told.get(step)
            told = Told(plain(event.name)) if event.kind == "call" else Agent(step.rpartition("/")[2])
            if isinstance(told, Agent) and isinstance(before, Agent):
                told.turns, told.calls = before.turns, before.calls
            self._told[step] = told
            self._begin(step, event.at, seq)
        elif isinstance(agent := self._told.get(list_of(step)), Agent):
            agent.turns += event.kind == "turn"
            agent.calls += event.kind == "tool"
            self._touch(list_of(step), seq)
            why = plain(event.value["wrong"]) if event.kind == "tool" and event.value else ""
            self.names |= {step: plain(event.name)} if why else {}
            return why
        return ""

    def ended(self, event: e.ScopeEnded, seq: int) -> str:
        """A scope has ended; the path of what is no longer told."""
        told = self._told.get(event.step)
        if event.kind == "item":
            return self._item_ended(event, seq)
        if told is not None:
            told.status = "done"
            self._touch(event.step, seq)
        return ""

    def _item_ended(self, event: e.ScopeEnded, seq: int) -> str:
        item, is_good = event.step, event.outcome != "done"
        if is_good:
            self.ensure(f"{item}/", event.at, seq)
        listed, told = self._listed(item), self._told.get(item)
        listed.open.discard(item)
        listed.undoing.discard(item)
        listed.done += not is_good
        listed.made_good += is_good
        self._touch(list_of(item), seq)
        if told is None or not listed.is_long or self._is_whole(item):
            if told is not None:
                told.status = told.status if is_good else "done"
                self._touch(item, seq)
            return ""
        if item in listed.shown:
            told.status = told.status if is_good else "done"
            return ""
        return self._fold(item)

    def set_aside(self, event: e.ItemSetAside, seq: int) -> str:
        """An item is set aside; the path of what is no longer told."""
        item, listed = event.step, self._listed(event.step)
        for items in (listed.open, listed.failed):
            items.discard(item)
        listed.aside.add(item)
        self.names.setdefault(item, plain(event.name))
        self._touch(list_of(item), seq)
        if (told := self._told.get(item)) is not None:
            told.status, told.why = "aside", event.reason
            self._touch(item, seq)
        is_seen = listed.is_seen(item) or not listed.is_long or self._is_whole(item)
        return "" if is_seen else self._fold(item)

    def taken_up(self, item: str) -> None:
        """An item that was set aside is done anew: what follows is told apart from what was before."""
        self.leave(list_of(item))

    def accepted(self, item: str, seq: int) -> None:
        """An item stays set aside."""
        listed = self._listed(item)
        listed.aside.discard(item)
        listed.accepted.add(item)
        self._touch(list_of(item), seq)
        if (told := self._told.get(item)) is not None:
            told.status = "accepted"

    def aside_of(self, path: str) -> list[str]:
        """The items of a list that are set aside."""
        listed = self._told.get(path)
        return list(listed.aside) if isinstance(listed, Listed) else []

    def failed(self, step: str, why: str) -> None:
        """A step has failed, and with it every scope around it up to the item that may fail alone."""
        for path in (step, *self.around(step)):
            told = self._told.get(path)
            if told is None or isinstance(told, Listed):
                continue
            told.status, told.why = "failed", why
            if list_of(path):
                listed = self._listed(path)
                listed.open.discard(path)
                listed.failed.add(path)
                if listed.catches:
                    break

    def not_made_good(self, step: str, why: str) -> None:
        """A compensation has failed."""
        for path in self.around(step):
            if list_of(path) and path in self._told:
                self._told[path].status, self._told[path].why = "failed", why
                self._listed(path).is_seen(path)

    def finish(self) -> None:
        """The run has ended, and everything that was to be made good is."""
        for told in self._told.values():
            if isinstance(told, Listed):
                told.made_good += len(told.undoing)
                told.undoing.clear()

    def close(self) -> None:
        """Forward is closed: what is told from here on is how things are made good."""
        self.leave("")
        self._undoes = True

    def leave(self, scope: str) -> None:
        """What is told of a scope so far stays as it is."""
        for path, told in list(self._told.items()):
            if path == scope or is_in(path, scope):
                self._write(path, told, (), goes_on=False)
        self._tree.leave(scope)

    # -- lines --

    def ensure(self, step: str, at: int, seq: int) -> None:
        """Every scope around a step has a line that what is said of the step can stand under."""
        for path in reversed(list(self.around(step))):
            if self._tree.head(path) is not None:
                continue
            told = self._told.get(path) or self._unknown(path)
            if self._undoes and not told.undoes:
                told = self._again(path, told)
            self._told[path] = told
            is_undone = told.undoes and isinstance(told, Listed)
            self._begin(path, self._left_out.undone_at.get(path, at) if is_undone else at, seq)

    def _unknown(self, path: str) -> Told:
        name = self.names.get(path, path.rpartition("/")[2])
        step = self.bundle.find(path)
        if step is not None and step.verb == "agent":
            return Agent(name)
        if list_of(path) or step is None or step.verb == "call":
            return Told(step.flow if step is not None and not list_of(path) else name)
        return Listed(name)

    def _again(self, path: str, told: Told) -> Told:
        """The scope as it is told while it is made good."""
        if isinstance(told, Listed):
            return Listed(told.name, told.total, undoes=True, made_good=self._left_out.made_good.get(path, 0))
        if isinstance(told, Agent):
            return Agent(told.name, undoes=True)
        if list_of(path):
            self._listed(path).undoing.add(path)
        return Told(told.name, undoes=True)

    def _listed(self, item: str) -> Listed:
        path = list_of(item)
        told = self._told.get(path)
        if not isinstance(told, Listed):
            told = self._told[path] = Listed(path.rpartition("/")[2])
        return told

    def _begin(self, path: str, at: int, seq: int) -> None:
        told = self._told[path]
        names = self.names_of(path)
        told.head = self._tree.begin(
            Line(
                at=at, sign="wait", step=path, text="", name=names[-1], place=" › ".join(names), seq=seq,
                is_list=isinstance(told, Listed), branch=self.branch(path),
            )
        )  # fmt: skip
        self._write(path, told, ())

    def _touch(self, path: str, seq: int) -> None:
        if self._tree.head(path) is not None:
            self._tree.change(self._told[path].head, seq=seq)

    def _fold(self, item: str) -> str:
        self._tree.drop(item)
        for path in [path for path in self._told if path == item or is_in(path, item)]:
            del self._told[path]
        return item

    def _is_whole(self, item: str) -> bool:
        whole = self._whole
        return whole is not None and (item == whole or is_in(item, whole) or is_in(whole, item))

    def write(self, asked: Collection[str], to_come: Collection[str] = ()) -> tuple[set[int], set[int]]:
        """Brings every head up to date. The heads of what is quiet, and those under which all is that was made good.

        `asked`: where a person is asked something; `to_come`: what is still to be made good beside that.
        """
        items, others = (
            {path for step in steps for path in (step, *self.around(step)) if list_of(path)}
            for steps in (asked, to_come)
        )
        quiet: set[int] = set()
        good: set[int] = set()
        for path, told in self._told.items():
            if self._tree.head(path) != told.head:
                continue
            self._write(path, told, items, others)
            is_folded = bool(list_of(path)) and self._listed(path).is_long and not self._is_whole(path)
            if is_folded and told.status == "open" and path not in items:
                quiet.add(told.head)
            if is_folded and told.undoes:
                good.add(told.head)
        return quiet, good

    def _write(
        self, path: str, told: Told, asked: Collection[str], to_come: Collection[str] = (), *, goes_on: bool = True
    ) -> None:
        if self._tree.head(path) != told.head:
            return
        sign: Sign
        if isinstance(told, Listed):
            sign, text = told.sign(asked), told.text(asked, to_come, goes_on=goes_on)
        elif list_of(path):
            status = told.status if not told.undoes else "undone failed" if told.status == "failed" else "undone"
            sign, text = ITEM["asked" if path in asked else status]
            text = sentence(_(text, why=bare(retold(told.why))))
        else:
            flow = self.bundle.called.get(told.name)
            title = bare(flow.title) if flow is not None else ""
            done: Sign = "failed" if told.status == "failed" else "done" if told.status == "done" else "wait"
            sign = "good" if told.undoes else done
            form = marked("Flow {flow}: {title}.") if title else marked("Flow {flow}.")
            text = _(marked("What flow {flow} did is made good.") if told.undoes else form, flow=told.name, title=title)
            text = told.text() if isinstance(told, Agent) else text
        self._tree.change(told.head, sign=sign, text=text)


def _around(step: str) -> Iterator[str]:
    """The scopes around a step, innermost first, lists among them."""
    while "/" in step:
        step = step.rpartition("/")[0]
        yield step
