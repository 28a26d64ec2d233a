"""`amends lsp`: speaks the Language Server Protocol over standard input and output. The only home of pygls.

Problems come a moment after the last key; everything else is answered from the text as it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from pathlib import Path

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path
from pygls.workspace import TextDocument

from runner import __version__
from runner.editor.desk import Desk, Seen
from runner.editor.found import places
from runner.editor.offered import offers
from runner.editor.place import Pointed, pointed_at, typed_in
from runner.editor.told import told
from runner.errors import Problem
from runner.language.schema import refresh

PAUSE = 0.15
"""Seconds after the last key until problems are looked for."""
SERVER = LanguageServer("amends", __version__, text_document_sync_kind=types.TextDocumentSyncKind.Full)
_MEANT = re.compile(r'^did you mean "([^"]+)"\?$|^write it in quotes: (.+)$', re.MULTILINE)
_desks: dict[Path, Desk] = {}
_addresses: dict[Path, str] = {}
"""What the editor calls each open file: it may write signs of a path otherwise than we would."""


def serve() -> None:
    """Answers until the editor ends."""
    SERVER.start_io()


def _desk(path: Path) -> Desk:
    """The desk of the project that a file belongs to."""
    made = Desk(path)
    return _desks.setdefault(made.project.folder, made)


def _path(address: str) -> Path:
    """The file of an address. What was never saved is one in the current folder."""
    path = Path(to_fs_path(address) or address).absolute()
    _addresses[path] = address
    return path


def _text(server: LanguageServer, path: Path) -> TextDocument:
    return server.workspace.get_text_document(_addresses[path])


# --- texts ---------------------------------------------------------------------------------------------------------


@SERVER.feature(types.TEXT_DOCUMENT_DID_OPEN)
def opened(server: LanguageServer, asked: types.DidOpenTextDocumentParams) -> None:
    """A file is shown."""
    _show(server, asked.text_document.uri)


@SERVER.feature(types.TEXT_DOCUMENT_DID_CHANGE)
async def changed(server: LanguageServer, asked: types.DidChangeTextDocumentParams) -> None:
    """Somebody typed."""
    address, version = asked.text_document.uri, asked.text_document.version
    await asyncio.sleep(PAUSE)
    if server.workspace.get_text_document(address).version == version:
        _show(server, address)


@SERVER.feature(types.TEXT_DOCUMENT_DID_SAVE)
def saved(server: LanguageServer, asked: types.DidSaveTextDocumentParams) -> None:
    """Other files may lean on this one."""
    desk = _desk(_path(asked.text_document.uri))
    desk.read_again()
    _publish(server, desk)
    with contextlib.suppress(OSError):
        refresh(desk.project.folder / "schemas", desk.facts)


@SERVER.feature(types.TEXT_DOCUMENT_DID_CLOSE)
def closed(server: LanguageServer, asked: types.DidCloseTextDocumentParams) -> None:
    """A file is no longer shown."""
    _desk(_path(asked.text_document.uri)).close(_path(asked.text_document.uri))


def _show(server: LanguageServer, address: str) -> None:
    path = _path(address)
    desk = _desk(path)
    desk.show(path, server.workspace.get_text_document(address).source)
    _publish(server, desk, path if desk.is_flow(path) else None)


def _publish(server: LanguageServer, desk: Desk, only: Path | None = None) -> None:
    """The problems of what is open, or of one flow."""
    shown_now = list(desk.open) if only is None else [only]
    for path in shown_now:
        desk.take(path, _text(server, path).source)
    around = desk.around() if only is None else {}
    for path in shown_now:
        problems = desk.see(path).problems if desk.is_flow(path) else around.get(desk.project.name_of(path), ())
        shown = [_diagnostic(server, path, problem) for problem in problems]
        address, version = _addresses[path], _text(server, path).version
        server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(address, shown, version))


def _diagnostic(server: LanguageServer, path: Path, problem: Problem) -> types.Diagnostic:
    is_error = problem.level == "error"
    return types.Diagnostic(
        range=_range(server, path, problem.line, problem.column, problem.length),
        message=f"{problem.what}\n{problem.hint}" if problem.hint else problem.what,
        severity=types.DiagnosticSeverity.Error if is_error else types.DiagnosticSeverity.Warning,
        code=problem.code,
        source="amends",
    )


def _range(server: LanguageServer, path: Path, line: int, column: int, length: int) -> types.Range:
    """A place of ours (from 1, in characters) as the editor counts."""
    document = _text(server, path)
    start = types.Position(max(line - 1, 0), max(column - 1, 0))
    end = types.Position(start.line, start.character + length)
    return document.position_codec.range_to_client_units(document.lines, types.Range(start, end))


# --- questions -----------------------------------------------------------------------------------------------------


@SERVER.feature(types.TEXT_DOCUMENT_COMPLETION, types.CompletionOptions(trigger_characters=[".", "{", "|", " "]))
def completed(server: LanguageServer, asked: types.CompletionParams) -> types.CompletionList:
    """What may be written here."""
    path = _path(asked.text_document.uri)
    document, desk = server.workspace.get_text_document(asked.text_document.uri), _desk(path)
    offset = document.offset_at_position(asked.position)
    if not desk.is_flow(path):
        return types.CompletionList(is_incomplete=False, items=[])
    found = offers(desk, path, document.source, offset)
    typed = typed_in(document.source[:offset])
    line = document.source[document.source.rfind("\n", 0, offset) + 1 : offset]
    start = len(re.sub(r"\w*$" if typed is not None else r"[\w.:]*$", "", line))
    place = _range(server, path, asked.position.line + 1, start + 1, len(line) - start)
    items = [
        types.CompletionItem(
            label=each.label,
            detail=each.detail or None,
            documentation=types.MarkupContent(types.MarkupKind.Markdown, each.about) if each.about else None,
            kind=types.CompletionItemKind.Function if each.is_function else types.CompletionItemKind.Field,
            sort_text=f"{number:04}",
            text_edit=types.TextEdit(place, each.label),
        )
        for number, each in enumerate(found)
    ]
    return types.CompletionList(is_incomplete=False, items=items)


@SERVER.feature(types.TEXT_DOCUMENT_HOVER)
def hovered(server: LanguageServer, asked: types.HoverParams) -> types.Hover | None:
    """What is meant here."""
    _, seen, pointed = _pointed(server, asked)
    said = told(seen, pointed) if pointed is not None else ""
    if not said or pointed is None:
        return None
    place = pointed.place
    return types.Hover(
        types.MarkupContent(types.MarkupKind.Markdown, said),
        _range(server, _path(asked.text_document.uri), place.line, place.column, place.length),
    )


@SERVER.feature(types.TEXT_DOCUMENT_DEFINITION)
def defined(server: LanguageServer, asked: types.DefinitionParams) -> list[types.Location]:
    """Where what is meant here is defined."""
    desk, seen, pointed = _pointed(server, asked)
    path = _path(asked.text_document.uri)
    found = places(desk, path, seen, pointed) if pointed is not None else []
    return [
        types.Location(place.as_uri(), types.Range(types.Position(line - 1, 0), types.Position(line - 1, 0)))
        for place, line in found
    ]


def _pointed(
    server: LanguageServer, asked: types.HoverParams | types.DefinitionParams
) -> tuple[Desk, Seen, Pointed | None]:
    path = _path(asked.text_document.uri)
    document, desk = server.workspace.get_text_document(asked.text_document.uri), _desk(path)
    desk.take(path, document.source)
    offset = document.offset_at_position(asked.position)
    column = offset - document.source.rfind("\n", 0, offset)
    seen = desk.see(path)
    return desk, seen, pointed_at(seen, asked.position.line + 1, column)


_KINDS = [types.CodeActionKind.QuickFix, types.CodeActionKind.SourceFixAll]


@SERVER.feature(
    types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions(code_action_kinds=_KINDS, resolve_provider=True)
)
def mended(server: LanguageServer, asked: types.CodeActionParams) -> list[types.CodeAction]:
    """What puts a problem right: the nearest name, or the quotes, as its hint says; and all that is certain."""
    address = asked.text_document.uri
    title = "Put right all that is certain in this flow"
    found = [types.CodeAction(title, kind=types.CodeActionKind.SourceFixAll, data=address)]
    for problem in asked.context.diagnostics:
        meant = _MEANT.search(problem.message)
        if problem.source == "amends" and meant is not None:
            new = meant[1] or meant[2]
            edit = types.WorkspaceEdit(changes={address: [types.TextEdit(problem.range, new)]})
            found.append(
                types.CodeAction(
                    f"Write {new}",
                    kind=types.CodeActionKind.QuickFix,
                    diagnostics=[problem],
                    edit=edit,
                    is_preferred=True,
                )
            )
    return found if _desk(_path(address)).is_flow(_path(address)) else found[1:]


@SERVER.feature(types.CODE_ACTION_RESOLVE)
def resolved(server: LanguageServer, action: types.CodeAction) -> types.CodeAction:
    """Everything in a flow that is certain: worked out when somebody wants it."""
    path = _path(str(action.data))
    desk, document = _desk(path), server.workspace.get_text_document(str(action.data))
    desk.take(path, document.source)
    lines, new = document.source.split("\n"), desk.put_right(path).split("\n")
    edits = [
        types.TextEdit(_range(server, path, number, 1, len(line)), right)
        for number, (line, right) in enumerate(zip(lines, new, strict=True), 1)
        if line != right
    ]
    action.edit = types.WorkspaceEdit(changes={document.uri: edits})
    return action
