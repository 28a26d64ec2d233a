"""The shape of a connector file, as strict models. Title, description and examples are the manual: the JSON Schema that
editors use is made out of them, and each description says which names an expression may use there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field

from connectors.answers import Word
from runner.contract import Json
from runner.language.clauses import (
    Model,
    Name,
    PlainDuration,
    RateText,
    RetryModel,
    Sentence,
    Values,
    optional,
    required,
)

if TYPE_CHECKING:
    from typing import Optional as Maybe
else:

    class Maybe:
        """What may be left out, but not written with nothing after it: for readers None, for the model no None."""

        def __class_getitem__(cls, kind: Any) -> Any:
            return kind


METHODS = ("get", "post", "put", "patch", "delete")

Text = Annotated[str, Field(min_length=1)]
Fields = dict[Name, Any]

_ASKED = "In reach: input connection key."
_ANSWERED = "In reach: input connection response key."
_COUNT = f"How many were found: 0 none, 1 found, more: a person looks. {_ANSWERED}"


def _path(method: str) -> Any:
    text = f"The path of a {method.upper()}; what expressions put into it is percent-encoded. {_ASKED}"
    return optional(text, "/contacts/${{ input.id }}")


class RequestModel(Model):
    """One request: a method with its path, and what goes with it. A value that is nothing is left out."""

    spoken: ClassVar[str] = "request"
    model_config = ConfigDict(title="Request")

    get: Maybe[Text] = _path("get")
    post: Maybe[Text] = _path("post")
    put: Maybe[Text] = _path("put")
    patch: Maybe[Text] = _path("patch")
    delete: Maybe[Text] = _path("delete")
    query: Maybe[Values] = optional(f"Query fields. {_ASKED}", {"reference": "${{ key }}"})
    json_: Any = optional(f"The body, sent as JSON. {_ASKED}", {"name": "${{ input.name }}"}, alias="json")
    form: Maybe[Values] = optional(f"The body, sent as a form. {_ASKED}", {"name": "${{ input.name }}"})
    multipart: Maybe[Values] = optional(
        f"The body, sent in parts: texts, and fields of type file. {_ASKED}", {"file": "${{ input.receipt }}"}
    )
    mail: Maybe[Values] = optional(
        f"The body, sent as a mail (message/rfc822): from, to, subject, text, html, reply_to, attach. {_ASKED}",
        {"from": "${{ connection.from }}", "to": "${{ input.to }}", "subject": "Hello", "text": "${{ input.text }}"},
    )
    headers: Maybe[Values] = optional(f"Further headers. {_ASKED}", {"X-Team": "ops"})


class KeyModel(Model):
    """Where our key goes and how long the service remembers it."""

    spoken: ClassVar[str] = "key"
    model_config = ConfigDict(title="Key")

    header: Maybe[Text] = optional("The header that carries the key.", "Idempotency-Key")
    field: Maybe[Text] = optional("The field of the JSON or form body that carries the key.", "reference")
    query: Maybe[Text] = optional("The query field that carries the key.", "request_id")
    life: Maybe[PlainDuration] = optional(
        "How long the service answers a known key with its first result. Needed for keyed.", "24 hours"
    )
    replayed: Maybe[Text] = optional(
        f"Yes where an answer that is no 2xx says that this key was carried out before. {_ANSWERED}",
        "${{ response.status == 409 }}",
    )
    form: Maybe[Literal["uuid", "short"]] = optional(
        "How the service wants it: uuid, or short: 24 hexadecimal digits. Made of our key, for ${{ key }} too.", "uuid"
    )


class LookupModel(Model):
    """How the service is asked by our key whether it did it. Yields the action's output and outside id."""

    spoken: ClassVar[str] = "lookup"
    model_config = ConfigDict(title="Lookup")

    request: RequestModel = required("The question. It must use ${{ key }}.")
    count: Text = required(_COUNT, "${{ response.json.items | length }}")
    output: Maybe[Fields] = optional(
        "The action's output, out of the answer.", {"id": "${{ response.json.items[0].id }}"}
    )
    external_id: Maybe[Text] = optional("The outside id, out of the answer.", "${{ response.json.items[0].id }}")
    delay: Maybe[PlainDuration] = optional("How long after the call the answer can be relied on.", "2 s")


class FindModel(Model):
    """How a record is asked for by what the author's business knows of it."""

    spoken: ClassVar[str] = "find"
    model_config = ConfigDict(title="Find")

    by: list[Name] = required(
        "The fields an author's find may give; they are in reach as input.", ["email"], min_length=1
    )
    request: RequestModel = required("The question.")
    count: Text = required(_COUNT, "${{ response.json.items | length }}")
    output: Maybe[Fields] = optional(
        "The action's output, out of the answer.", {"id": "${{ response.json.items[0].id }}"}
    )
    external_id: Maybe[Text] = optional("The outside id, out of the answer.", "${{ response.json.items[0].id }}")


class FailureModel(Model):
    """One answer that is not a success, by the vendor's word. The first line whose `when` is true counts."""

    spoken: ClassVar[str] = "a line of failures"
    model_config = ConfigDict(title="Failure")

    when: Text = required(f"A yes or no. {_ANSWERED}", "${{ response.status == 409 }}")
    is_: Word = required("What it means. `unavailable` says that nothing was done.", "already_there", alias="is")
    say: Maybe[Text] = optional("One sentence for people.", "${{ response.json.message }}")


class UndoModel(Model):
    """The action that takes this one back."""

    spoken: ClassVar[str] = "undo"
    model_config = ConfigDict(title="Undo")

    action: Name = required("Another action of this connector.", "refund")
    with_: Maybe[Values] = optional("Its input. In reach: input output.", {"charge": "${{ output.id }}"}, alias="with")


class DraftModel(Model):
    """What a draft run does instead: an action that leaves a draft at the service. A draft sends nothing."""

    spoken: ClassVar[str] = "draft"
    model_config = ConfigDict(title="Draft")

    action: Name = required("The action of this connector that leaves it; it has an undo.", "create_draft")
    with_: Maybe[Values] = optional(
        "Its input, where that is not in the fields of the same names. In reach: input.",
        {"status": "draft"},
        alias="with",
    )


class PagesModel(Model):
    """A list that comes in pages. One way leads from page to page: cursor, page, offset or link. The output says
    `incomplete: true` where a limit cut the list."""

    spoken: ClassVar[str] = "pages"
    model_config = ConfigDict(title="Pages")

    of: Name = required("The field of output that is the list. The other fields are those of the first page.", "items")
    cursor: Maybe[Text] = optional(
        f"What names the next page; nothing there: this is the last. {_ANSWERED}", "${{ response.json.next_cursor }}"
    )
    page: Maybe[int] = optional("Pages are counted; the number of the first. It ends with an empty one.", 1, ge=0, le=1)
    offset: Maybe[int] = optional(
        "Items are counted; the first one's number. It ends with an empty page.", 0, ge=0, le=1
    )
    link: Maybe[Text] = optional(
        f"`header` (Link, rel=next), or the address of the next page; it must be the service's own. {_ANSWERED}",
        "${{ response.json.next }}",
    )
    query: Maybe[Text] = optional("The query field that carries cursor, page or offset.", "after")
    field: Maybe[Text] = optional("The field of the body that carries it; a dot goes one level down.", "start_cursor")
    last: Maybe[Text] = optional(f"Yes on the last page. {_ANSWERED}", "${{ not response.json.has_more }}")
    seen_by: Maybe[Text] = optional(
        "What tells items apart: one that came before is left out. In reach: item.", "${{ item.id }}"
    )
    most: Maybe[int] = optional("So many items at most, 10000 if not said.", 500, ge=1, le=100_000)


class RowsModel(Model):
    """Calls that share one request: each is one row of its body, and has its own answer. What `success`, `failures`,
    `result` and `external_id` call response is the answer of their row."""

    spoken: ClassVar[str] = "rows"
    model_config = ConfigDict(title="Rows")

    of: Values = required(f"One row. {_ASKED}", {"email": "${{ input.email }}"})
    into: Maybe[Text] = optional("The field of the body that is the list; left out: the body is the list.", "inputs")
    most: Maybe[int] = optional("So many rows at most, 100 if not said.", 50, ge=1, le=10_000)
    answer: Text = required("The answers of the rows. In reach: response.", "${{ response.json.results }}")
    match: Maybe[Text] = optional(
        "The key of the row an answer is for; left out: they stand in the order of the rows. In reach: row response.",
        "${{ row.reference }}",
    )
    status: Maybe[Text] = optional("The status of a row, as of an answer. In reach: row response.", "${{ row.status }}")


class ActionModel(Model):
    """One action: what it does to the world, its request, and what the answers mean."""

    spoken: ClassVar[str] = "an action"
    model_config = ConfigDict(title="Action")

    title: Maybe[Sentence] = optional("One sentence: what it does.", "Makes a contact")
    reads: Maybe[Literal[True]] = optional("It changes nothing.", True)
    writes: Maybe[Literal["keyed", "lookup", "once"]] = optional(
        "keyed: the service dedupes our key. lookup: it can be asked by our key. once: neither.", "keyed"
    )
    key: Maybe[KeyModel] = optional("Where our key goes.")
    input: Maybe[Fields] = optional("Field name to type.", {"email": "email", "note": "text or empty"})
    request: RequestModel = required("What is sent.")
    rows: Maybe[RowsModel] = optional("How calls share one request.")
    pages: Maybe[PagesModel] = optional("How its list goes on.")
    success: Maybe[Text] = optional(f"A yes or no about a 2xx answer. {_ANSWERED}", "${{ response.status == 201 }}")
    output: Maybe[Fields] = optional("Field name to type.", {"id": "text"})
    result: Maybe[Fields] = optional(
        f"Where output comes from, if not from the same-named fields of response.json. {_ANSWERED}",
        {"id": "${{ response.json.data.id }}"},
    )
    external_id: Maybe[Text] = optional(f"The outside id, out of the answer. {_ANSWERED}", "${{ response.json.id }}")
    lookup: Maybe[LookupModel] = optional("How to ask whether it was done.")
    find: Maybe[FindModel] = optional("How to ask whether the record is there already.")
    failures: Maybe[list[FailureModel]] = optional("Answers that are no success.")
    undo: Maybe[UndoModel] = optional("What takes it back.")
    cannot_undo: Maybe[Sentence] = optional(
        "Why nothing takes it back.", "A payment is taken back by finance, by hand."
    )
    draft: Maybe[DraftModel] = optional("What leaves a draft of it, for draft runs.")
    sample: Maybe[Values] = optional("What a draft run is answered with.", {"id": "c_1"})
    timeout: Maybe[PlainDuration] = optional("How long one try may take.", "30 s")
    retry: Maybe[RetryModel] = optional("How often and how fast it is tried.")


class SandboxModel(Model):
    """The service's own place for trying things out, for connections that say `sandbox: true`."""

    spoken: ClassVar[str] = "sandbox"
    model_config = ConfigDict(title="Sandbox")

    origin: Text = required("Where it is.", "https://sandbox.example.com")
    token_url: Maybe[Text] = optional("Where its tokens come from.", "https://login.sandbox.example.com/token")
    authorize_url: Maybe[Text] = optional(
        "Where a person agrees for it.", "https://login.sandbox.example.com/authorize"
    )


class ConnectorModel(Model):
    """A connector file: one service, how it is reached, and its actions."""

    spoken: ClassVar[str] = "the connector"
    model_config = ConfigDict(title="Connector")

    connector: Name = required("Its name; same as the file name.", "billing")
    title: Sentence = required("One sentence: which service this is.", "The billing service")
    origin: Maybe[Text] = optional("Where the service is, unless the connection says so.", "https://api.example.com")
    auth: Maybe[Values] = optional(
        "How we prove who we are; values name settings of the connection.", {"bearer": "token"}
    )
    settings: Maybe[Fields] = optional(
        "Further settings of a connection: name to type. In reach as connection.", {"account": "text"}
    )
    headers: Maybe[Values] = optional(
        "Headers of every request. In reach: connection.", {"Notion-Version": "2022-06-28"}
    )
    failures: Maybe[list[FailureModel]] = optional(
        "Answers that are no success, for every action after its own lines. In reach: connection key response."
    )
    sandbox: Maybe[SandboxModel] = optional("Where `sandbox: true` leads.", {"origin": "https://sandbox.example.com"})
    rate: Maybe[RateText] = optional("How fast calls may be, unless the connection says so.", "100 per 10 s")
    at_once: Maybe[int] = optional("How many calls may be open, unless the connection says so.", 4, ge=1)
    personal: Maybe[list[Name]] = optional(
        "Fields of inputs and outputs, at any depth, that are personal data.", ["email", "phone"]
    )
    actions: dict[Name, ActionModel] = required("The actions by name.", min_length=1)


def completed(connector: ConnectorModel, action: ActionModel) -> ActionModel:
    """The action with what its connector says for all of them."""

    def asked(request: RequestModel) -> RequestModel:
        headers = {**(connector.headers or {}), **(request.headers or {})}
        return request.model_copy(update={"headers": headers or None})

    blocks = {"lookup": action.lookup, "find": action.find}
    return action.model_copy(
        update={
            "request": asked(action.request),
            "failures": [*(action.failures or ()), *(connector.failures or ())] or None,
            **{
                word: block.model_copy(update={"request": asked(block.request)})
                for word, block in blocks.items()
                if block is not None
            },
        }
    )


def schema() -> dict[str, Json]:
    """The JSON Schema (2020-12) of a connector file, for editors."""
    made: dict[str, Json] = ConnectorModel.model_json_schema(by_alias=True)
    rest = {name: value for name, value in made.items() if name != "title"}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "An Amends connector", **rest}
