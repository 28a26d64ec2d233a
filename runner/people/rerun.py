"""Starting a run anew: the same inputs under the same key, once nothing of the old run stands."""

from __future__ import annotations

from runner.core import events as e
from runner.core.state import State
from runner.engine.starting import Wish
from runner.errors import AlreadySo, NotPossible
from runner.people.table import sentence, something_stands
from runner.store.facts import RunView, Store
from runner.tongue import _, several


def wish_anew(store: Store, view: RunView, state: State, by: str) -> Wish:
    """The wish that starts a run anew.

    Raises NotPossible while the run goes on, anything of it stands, or a person has it in their hands; AlreadySo where
    it was run again before.
    """
    view = store.run(view.run)  # as it is: what people see of it may lack personal data
    _refuse(view, state)
    if newest := successor(store, view):
        raise AlreadySo(_(
            "run {run} was run again as {newest}; start that one anew: amends runs rerun {newest}",
            run=view.run, newest=newest,
        ))  # fmt: skip
    first = store.log(view.run, limit=1)[0].event
    if state.is_erased or not isinstance(first, e.RunStarted) or first.continues:
        raise NotPossible(
            _("run {run} cannot be started anew: its inputs were erased, or it was a clean-up", run=view.run)
        )
    again = view.rerun + 1
    return Wish(
        given=first.inputs, key=str(first.trigger.get("id", "")), starter=by, mode=view.mode, source=f"rerun {again}",
        rerun=again,
    )  # fmt: skip


def successor(store: Store, view: RunView) -> str:
    """The newest run that was started anew in the place of one, as its row stands in the store; empty for none."""
    same = store.run_of_key(view.flow, view.mode, view.run_key) if view.ended_at is not None else None
    return same[0].run if same is not None and same[0].rerun > view.rerun else ""


def _refuse(view: RunView, state: State) -> None:
    if sentence(state, "rerun")[0] == "done":
        return
    if state.is_taken_over and state.has_ended:
        raise NotPossible(_(
            "run {run} was taken over by hand, so what became of its effects is not in its log; started anew it would "
            "do them a second time: start a run under another key once they are made good",
            run=view.run,
        ))  # fmt: skip
    if not (state.has_ended and something_stands(state)):
        raise NotPossible(sentence(state, "rerun")[1])
    way_out = (
        _("make them good first (amends runs compensate {run}), or start a run under another key", run=view.run)
        if view.status in ("stopped", "drafted")
        else _("start a run under another key")
    )
    raise NotPossible(several(
        "{count} effect of run {run} ({status}) would be there twice if it were started anew; {way_out}",
        "{count} effects of run {run} ({status}) would be there twice if it were started anew; {way_out}",
        view.stands, run=view.run, status=_(view.status), way_out=way_out,
    ))  # fmt: skip
