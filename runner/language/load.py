"""One flow's text to a `Flow`: read, fitted to the model, every default filled in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import PurePath, PurePosixPath
from typing import Any, get_args

from runner.contract import Json
from runner.errors import Problem
from runner.language.clauses import COMPENSATION_MODELS, TRIGGER_MODELS, OnFailureModel, RecordModel, duration, given
from runner.language.fitting import FORM_WORDS, fit, value_at
from runner.language.flow import (
    Approval,
    Branch,
    Compensation,
    Duration,
    Flow,
    Limits,
    Lock,
    OnFailure,
    RetryWords,
    Step,
    Verb,
    Word,
    every_step,
)
from runner.language.model import FORMS, STEP_MODELS, TOOL_MODELS, FlowModel
from runner.language.schema_files import fields_of, read_schema
from runner.language.source import Path, ReadFile, Source, no_file, read

FORM_WORDS.update(
    steps=tuple(STEP_MODELS), compensate=tuple(COMPENSATION_MODELS), trigger=tuple(TRIGGER_MODELS),
    tools=tuple(TOOL_MODELS),
)  # fmt: skip

STEP_VERBS: tuple[Verb, ...] = get_args(Verb)
COMPENSATION_WORDS: tuple[Word, ...] = get_args(Word)

_AS_WRITTEN = "with_ find key owner rule unattended accept_order if_refused say each named at_once if_one_fails".split()
_AS_WRITTEN += ["match", "if_late", "about"]

_STAND_IN: dict[str, Json] = {"title": "…", "owner": "person:me"}


def load_flow(
    text: str, file: str, read_file: ReadFile = no_file
) -> tuple[Flow | None, Source | None, tuple[Problem, ...]]:
    """Reads one flow, and the file of its inputs if there is one. All problems of reading and shape come back, by line.

    The flow is there as far as anything could be made of it, even when there are problems, so that the rules can look
    at the rest. A flow with a problem of level error is never run.
    """
    source, read_problems = read(text, file)
    if source is None:
        return None, None, read_problems
    name = PurePath(file).stem
    fitted = fit(FlowModel, source, forms=FORMS, fill={**_STAND_IN, "flow": name.replace("-", "_") or "flow"})
    shape = [found for found in fitted.problems if found.line not in source.mended]
    source = source.with_marks(source.broken | fitted.broken, frozenset(fitted.lost))
    problems = [*read_problems, *shape]
    flow = None if fitted.model is None else _flow(fitted.model, fitted.data, source)
    if flow is not None:
        problems.extend(_file_name(flow, source))
        flow, wrong = _with_schema(flow, source, read_file)
        if wrong:
            problems.extend(wrong)
            source = source.with_marks(source.broken | {("inputs",)}, source.lost)
    return flow, source, tuple(sorted(problems, key=lambda found: (found.line, found.column, found.code)))


def _file_name(flow: Flow, source: Source) -> Iterator[Problem]:
    stem = PurePath(source.file).stem
    written = value_at(source.data, ("flow",))
    if isinstance(written, str) and PurePath(source.file).suffix in (".yaml", ".yml") and stem != written == flow.id:
        yield source.problem(
            "FL006",
            ("flow",),
            f'the flow is called "{flow.id}" and its file "{PurePath(source.file).name}"',
            "give both the same name",
        )


def steps_in(data: Json) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Every step of a flow's data with its path, nested ones included, in the order they are written."""
    if isinstance(data, dict):
        yield from _steps_below(data.get("steps"), ("steps",))


def _steps_below(steps: Json, path: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    if not isinstance(steps, list):
        return
    for index, step in enumerate(steps):
        if not isinstance(step, dict):
            continue
        here = (*path, index)
        yield here, step
        yield from _steps_below(step.get("steps"), (*here, "steps"))
        yield from _steps_below(step.get("tools"), (*here, "tools"))
        if isinstance(step.get("choose"), list):
            for number, branch in enumerate(step["choose"]):
                if isinstance(branch, dict):
                    yield from _steps_below(branch.get("steps"), (*here, "choose", number, "steps"))
        if isinstance(step.get("parallel"), dict):
            for name, branch in step["parallel"].items():
                yield from _steps_below(branch, (*here, "parallel", name))


# --- inputs by a schema --------------------------------------------------------------------------------------------


def _with_schema(flow: Flow, source: Source, read_file: ReadFile) -> tuple[Flow, tuple[Problem, ...]]:
    """The flow with the inputs that the file after `schema` names; untouched where `schema` is an ordinary input."""
    written = flow.inputs.get("schema")
    is_path = isinstance(written, str) and written.endswith((".json", ".yaml", ".yml"))
    if not is_path and not (
        isinstance(written, dict) and any(key in written for key in ("properties", "$schema", "type"))
    ):
        return flow, ()
    flow, path = replace(flow, inputs={}), ("inputs", "schema")
    name = PurePosixPath(str(written))
    if not is_path:
        what, hint = "a JSON Schema stands in a file of its own", "write schema: schemas/NAME.json"
    elif list(value_at(source.data, ("inputs",))) != ["schema"]:
        what, hint = (
            "beside a schema there are no other inputs",
            "move them into the schema, or write all of them as types",
        )
    elif name.is_absolute() or ".." in name.parts or "\\" in str(name):
        what, hint = (
            f'"{written}" leads out of the project',
            "write the path from the project folder: schemas/NAME.json",
        )
    elif (found := read_file(str(name))) is None:
        what, hint = f"there is no file {written}", "write the path from the project folder: schemas/NAME.json"
    else:
        text, unreadable = found
        schema, problems = (None, (unreadable,)) if unreadable is not None else read_schema(text, str(name))
        if schema is not None:
            flow = replace(flow, inputs=fields_of(schema), schema_file=str(name), schema=schema)
        return flow, problems
    return flow, (source.problem("FL006", path, what, hint),)


# --- model to flow -------------------------------------------------------------------------------------------------


def _flow(model: Any, data: Mapping[str, Json], source: Source) -> Flow:
    record, on_failure, triggers = model.record, model.on_failure, data.get("trigger")
    if isinstance(record, RecordModel):
        record = record.id
    several = triggers if isinstance(triggers, list) else [triggers or "manual"]
    return Flow(
        id=model.flow,
        title=model.title,
        owner=model.owner,
        file=source.file,
        record=record,
        one_at_a_time=bool(getattr(model.record, "one_at_a_time", None)),
        trigger=tuple({"manual": True} if isinstance(one, str) else dict(one) for one in several),
        steps=_gated(_steps(model.steps, ("steps",), source)),
        on_failure=_on_failure(on_failure)
        if isinstance(on_failure, OnFailureModel)
        else OnFailure(do=on_failure or "compensate"),
        keep=_duration(model.keep),
        **given(model, "mode", "run_key", "inputs", "outputs"),
    )


def _gated(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """The steps, each with the approve steps that cover it."""
    gates: dict[str, tuple[str, ...]] = {}
    for step in every_step(steps):
        for name in step.approval.covers if step.approval is not None else ():
            gates[name] = (*gates.get(name, ()), step.id)
    return _with_gates(steps, gates) if gates else steps


def _with_gates(steps: tuple[Step, ...], gates: Mapping[str, tuple[str, ...]]) -> tuple[Step, ...]:
    return tuple(
        replace(
            step,
            covered_by=gates.get(step.id, ()),
            branches=tuple(replace(branch, steps=_with_gates(branch.steps, gates)) for branch in step.branches),
        )
        for step in steps
    )


def _on_failure(model: Any) -> OnFailure:
    words = given(model, "do", "tell", "escalate_to", "if_one_fails", "then_run")
    return OnFailure(within=_duration(model.within), then_with=model.with_ or {}, **words)


def _steps(models: list[Any], path: Path, source: Source) -> tuple[Step, ...]:
    return tuple(
        _step(model, (*path, index), source) for index, model in enumerate(models) if not model.id.startswith("lost__")
    )


def _step(model: Any, path: Path, source: Source) -> Step:
    verb: Verb = next(verb for verb in STEP_VERBS if verb in type(model).model_fields)
    word = getattr(model, verb)
    lock = getattr(model, "lock", None)
    return Step(
        id=model.id,
        verb=verb,
        line=source.at(path).line,
        when=_condition(getattr(model, "when", None)),
        action=word if verb in ("read", "do", "agent") else "",
        retry=_retry(model.retry),
        timeout=_ms(model.timeout),
        compensate=_compensation(getattr(model, "compensate", None)),
        wait=_wait(word) if verb == "wait" else None,
        hand_off_to=word if verb == "hand_off" else "",
        show=_show(getattr(model, "show", None)),
        branches=tuple(_branches(model, verb, path, source)),
        compensate_at_once=bool(getattr(model, "compensate_at_once", False)),
        lock=Lock(record=lock.record, id=lock.id) if lock is not None else None,
        flow=word if verb == "call" else "",
        event=word if verb in ("wait_for", "emit") else "",
        within=_duration(model.within) if verb == "wait_for" else None,
        approval=_approval(model) if verb == "approve" else None,
        limits=_limits(model.limits) if verb == "agent" else None,
        **given(model, *_AS_WRITTEN),
    )


def _approval(model: Any) -> Approval:
    lengths: dict[str, Any] = {
        name: duration(text) for name, text in given(model, "within", "remind", "good_for").items()
    }
    lists: dict[str, Any] = {name: tuple(written) for name, written in given(model, "shows", "may_edit").items()}
    words = given(model, "needs", "escalate_to", "may_leave_out", "if_no", "proof")
    return Approval(
        question=model.approve, covers=tuple(model.covers), by=_people(model.by), **lengths, **lists, **words
    )


def _people(written: str | list[str] | None) -> tuple[str, ...]:
    return (written,) if isinstance(written, str) else tuple(written or ())


def _condition(written: str | bool | None) -> str | None:
    return f"${{{{ {str(written).lower()} }}}}" if isinstance(written, bool) else written


def _branches(model: Any, verb: str, path: Path, source: Source) -> Iterator[Branch]:
    if verb == "choose":
        for number, branch in enumerate(model.choose):
            steps = _steps(branch.steps, (*path, "choose", number, "steps"), source)
            yield Branch(steps=steps, when=_condition(branch.when))
    elif verb == "parallel":
        for name, steps in model.parallel.items():
            yield Branch(steps=_steps(steps, (*path, "parallel", name), source), name=name)
    elif verb == "each":
        yield Branch(steps=_steps(model.steps, (*path, "steps"), source))
    elif verb == "agent":
        yield from _tools(model, path, source)


def _tools(model: Any, path: Path, source: Source) -> Iterator[Branch]:
    """Each tool; where people are asked, behind the approve step that asks them."""
    for number, written in enumerate(model.tools):
        tool = replace(_step(written, (*path, "tools", number), source), tool_of=model.id)
        asked = getattr(written, "approve", None)
        gate = () if asked is None else (_tool_gate(tool, asked),)
        yield Branch(steps=(*gate, tool), name=tool.id)


def _tool_gate(tool: Step, written: Any) -> Step:
    agent, action = tool.tool_of, tool.action
    question = f"Let {agent} do this: {action}?"
    if isinstance(written, str):
        approval = Approval(question=question, covers=(tool.id,), by=(written,))
    else:
        words = {"question": question, **given(written, "question", "needs", "escalate_to")}
        lengths: dict[str, Any] = {"within": duration(written.within)} if written.within is not None else {}
        approval = Approval(covers=(tool.id,), by=_people(written.by), **words, **lengths)
    return Step(
        id=f"{tool.id}_approval", verb="approve", line=tool.line, owner=tool.owner, tool_of=tool.tool_of,
        approval=approval,
    )  # fmt: skip


def _limits(model: Any) -> Limits:
    return Limits(calls=model.calls, within=duration(model.within).ms, cost=model.cost)


def _wait(written: Any) -> Duration | str:
    return duration(written) if isinstance(written, str) else str(written.until)


def _show(written: Any) -> Mapping[str, Json]:
    if isinstance(written, str):
        return {"read": written}
    if isinstance(written, list):
        return {path: "${{ " + path + " }}" for path in written}
    return dict(written or {})


def _retry(model: Any) -> RetryWords:
    never_on = frozenset(getattr(model, "never_on", None) or ())
    pauses: dict[str, Any] = {name: _ms(text) for name, text in given(model, "pause", "longest").items()}
    return RetryWords(never_on=never_on, **pauses, **given(model, "tries", "growth"))


def _compensation(model: Any) -> Compensation | None:
    if model is None:
        return None
    if isinstance(model, str):
        return Compensation(word="cancel")
    word: Word = next(word for word in COMPENSATION_WORDS if word in type(model).model_fields)
    written = getattr(model, word)
    if word == "none":
        return Compensation(word=word, reason=written)
    names_nothing = word == "hand_off" or (word == "quarantine" and "." not in written)
    return Compensation(
        word=word,
        action="" if names_nothing else written,
        target=written if names_nothing else "",
        show=_show(getattr(model, "show", None)),
        retry=_retry(model.retry),
        timeout=_ms(model.timeout),
        approve_by=_people(model.approve_by),
        **given(model, "with_", "say", "unattended"),
    )


def _ms(text: str | None) -> int | None:
    return None if text is None else duration(text).ms


def _duration(text: str | None) -> Duration | None:
    return None if text is None else duration(text)
