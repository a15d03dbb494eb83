"""A server of the Language Server Protocol, for editors.

It only translates what `workspace`, `schemas` and `outline` return. `position_codec` converts
positions to the encoding that the client has chosen.
"""

import asyncio
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path, to_fs_path

from etcompile import emit
from etcompile.diagnostics import RULES, Diagnostic, Severity, explanation
from etcompile.diagnostics.fix import TextEdit
from etcompile.integrations.editor import outline, schemas
from etcompile.integrations.editor.workspace import OptionsOf, Workspace

_NAME = "etcompile"
_DELAY = 0.03
"""Seconds without another keystroke after which a file is looked at."""
_WATCHED = "**/*.{yaml,yml,json,toml}"
"""Files whose change may be of interest, if nobody has them open."""
RENDER = "etcompile.render"
"""The command that gives what a file compiles to, as YAML; its argument is the file's URI."""
_FIX_ALL = "source.fixAll.etcompile"


class EditorServer(LanguageServer):
    """The server, and what it knows of the open files."""

    def __init__(self, options: OptionsOf) -> None:
        super().__init__(_NAME, version("etcompile"))
        self.files = Workspace(options)
        self.found: dict[str, list[Diagnostic]] = {}
        self.waiting: dict[str, asyncio.TimerHandle] = {}

    # ---- texts ---------------------------------------------------------------------------------

    def changed(self, uri: str, *, at_once: bool = False) -> None:
        """Takes note of a text that is open, and looks at it soon."""
        path = to_fs_path(uri)
        if path is None:
            return
        self.files.texts[path] = self.workspace.get_text_document(uri).source
        if at_once:
            self.look(uri)
        else:
            self.look_soon(uri)
        # What another file says of this one may not hold any more.
        for other in [*self.found]:
            beside = to_fs_path(other)
            if other != uri and beside is not None and self.files.refers(beside, path):
                self.look_soon(other)

    def look_soon(self, uri: str) -> None:
        """Looks at a file once nobody has typed for a moment."""
        if (waiting := self.waiting.pop(uri, None)) is not None:
            waiting.cancel()
        loop = asyncio.get_running_loop()
        self.waiting[uri] = loop.call_later(_DELAY, self.look, uri)

    def closed(self, uri: str) -> None:
        """Forgets a text, which counts as it is saved from now on."""
        if (waiting := self.waiting.pop(uri, None)) is not None:
            waiting.cancel()
        path = to_fs_path(uri)
        self.files.texts.pop(path or "", None)
        self.found.pop(uri, None)
        self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, []))

    def look(self, uri: str) -> None:
        """Looks at a file, and tells what is wrong with it."""
        if (waiting := self.waiting.pop(uri, None)) is not None:
            waiting.cancel()
        path = to_fs_path(uri)
        if path is None or path not in self.files.texts:
            return
        self.found[uri] = found = self.files.findings(path)
        told = [self.diagnostic(uri, diagnostic) for diagnostic in found]
        document = self.workspace.get_text_document(uri)
        params = lsp.PublishDiagnosticsParams(uri, told, document.version)
        self.text_document_publish_diagnostics(params)

    # ---- places --------------------------------------------------------------------------------

    def range(self, uri: str, start: tuple[int, int], end: tuple[int, int]) -> lsp.Range:
        """A range of the protocol, from lines and characters that count from 0."""
        document = self.workspace.get_text_document(uri)
        positions = (lsp.Position(*start), lsp.Position(*end))
        codec = document.position_codec
        first, last = (
            codec.position_to_client_units(document.lines, position) for position in positions
        )
        return lsp.Range(first, last)

    def place(self, uri: str, position: lsp.Position) -> tuple[int, int]:
        """A line and a character that count from 0, from a position of the protocol."""
        document = self.workspace.get_text_document(uri)
        found = document.position_codec.position_from_client_units(document.lines, position)
        return found.line, found.character

    # ---- answers -------------------------------------------------------------------------------

    def diagnostic(self, uri: str, found: Diagnostic) -> lsp.Diagnostic:
        """A diagnostic of the protocol."""
        where = found.location
        line = (where.line or 1) - 1 if where else 0
        column = (where.column or 1) - 1 if where else 0
        width = where.width if where and where.column else 0
        hint = f"\n{found.hint}" if found.hint else ""
        is_error = found.severity is Severity.ERROR
        return lsp.Diagnostic(
            range=self.range(uri, (line, column), (line, column + width)),
            message=f"{found.message}{hint}",
            severity=lsp.DiagnosticSeverity.Error if is_error else lsp.DiagnosticSeverity.Warning,
            code=found.code,
            source=_NAME,
        )

    def edit(self, uri: str, edits: Sequence[TextEdit]) -> lsp.WorkspaceEdit:
        """An edit of the protocol."""
        changes = [
            lsp.TextEdit(
                self.range(
                    uri,
                    (edit.line - 1, edit.column - 1),
                    (edit.end_line - 1, edit.end_column - 1),
                ),
                edit.text,
            )
            for edit in edits
        ]
        return lsp.WorkspaceEdit(changes={uri: changes})

    def actions(self, params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        """The fixes of what is wrong in a range, and of all that can be fixed safely."""
        uri = params.text_document.uri
        wanted = params.context.only
        made: list[lsp.CodeAction] = []
        found = self.found.get(uri, [])
        for diagnostic in found:
            told = self.diagnostic(uri, diagnostic)
            is_here = (
                told.range.start.line <= params.range.end.line
                and params.range.start.line <= told.range.end.line
            )
            if diagnostic.fix is None or not is_here:
                continue
            made.append(
                lsp.CodeAction(
                    title=diagnostic.fix.title[:1].upper() + diagnostic.fix.title[1:],
                    kind=lsp.CodeActionKind.QuickFix,
                    diagnostics=[told],
                    is_preferred=diagnostic.fix.is_safe,
                    edit=self.edit(uri, diagnostic.fix.edits),
                )
            )
        path = to_fs_path(uri)
        if path is not None and any(d.fix is not None and d.fix.is_safe for d in found):
            edits = self.files.safe_edits(path)
            made.append(
                lsp.CodeAction(
                    title="Correct all that can only have been meant one way",
                    kind=_FIX_ALL,
                    edit=self.edit(uri, edits),
                )
            )
        return [
            action
            for action in made
            if wanted is None or any(_word(action.kind).startswith(_word(kind)) for kind in wanted)
        ]

    def hover(self, params: lsp.HoverParams) -> lsp.Hover | None:
        """What is behind the diagnostic at a place, or what the field there is for."""
        uri = params.text_document.uri
        path = to_fs_path(uri)
        line, column = self.place(uri, params.position)
        for found in self.found.get(uri, []):
            where = found.location
            if where is None or where.line is None or where.column is None:
                continue
            if where.line - 1 == line and 0 <= column - (where.column - 1) <= where.width:
                text = explanation.as_markdown(RULES[found.code])
                return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, text))
        if path is None:
            return None
        for own in self.files.documents(path):
            for field in own:
                if field.line == line and field.start <= column <= field.end:
                    api_version, kind = outline.header(own)
                    text = schemas.description(
                        api_version, kind, field.path, self.kubernetes_version(path)
                    )
                    words = lsp.MarkupContent(lsp.MarkupKind.Markdown, text)
                    return lsp.Hover(words) if text else None
        return None

    def kubernetes_version(self, path: str) -> str:
        """The version of Kubernetes that a file is for."""
        return self.files.options(path)[0].settings.kubernetes_version

    def completion(self, params: lsp.CompletionParams) -> list[lsp.CompletionItem]:
        """What may be written at a place."""
        uri = params.text_document.uri
        path = to_fs_path(uri)
        if path is None:
            return []
        line, column = self.place(uri, params.position)
        lines = self.files.lines(path)
        if line >= len(lines):
            return []
        here = outline.cursor(lines, line, column)
        span = self.range(uri, (line, here.start), (line, column))
        kubernetes = self.kubernetes_version(path)
        if here.key is None:
            known = schemas.values(
                here.api_version, here.kind, here.path, self.kubernetes_version(path)
            )
            return [
                lsp.CompletionItem(
                    label=value.word,
                    kind=lsp.CompletionItemKind.EnumMember,
                    documentation=value.text or None,
                    text_edit=lsp.TextEdit(span, _scalar(value.word)),
                )
                for value in known
            ]
        known = schemas.keys(here.api_version, here.kind, here.path, kubernetes)
        if not (here.api_version or here.path):
            top = ("apiVersion", "kind", "metadata", "spec")
            known = [schemas.Suggestion(name, "", "", required=True) for name in top]
        return [
            lsp.CompletionItem(
                label=key.word,
                kind=lsp.CompletionItemKind.Field,
                detail=key.form or None,
                documentation=key.text or None,
                sort_text=f"{0 if key.required else 1}{number:04}",
                text_edit=lsp.TextEdit(
                    span, f"{key.word}:{'' if key.form in ('object', 'array') else ' '}"
                ),
            )
            for number, key in enumerate(known)
            if key.word not in here.beside
        ]

    def definition(self, params: lsp.DefinitionParams) -> lsp.Location | None:
        """The document that a place names, such as the job of a ScaleOut."""
        path = to_fs_path(params.text_document.uri)
        if path is None:
            return None
        found = self.files.target(path, params.position.line)
        if found is None or (uri := from_fs_path(found.file)) is None:
            return None
        return lsp.Location(
            uri, self.range(uri, (found.line, found.start), (found.line, found.end))
        )

    def lenses(self, params: lsp.CodeLensParams) -> list[lsp.CodeLens]:
        """What each job of a file compiles to."""
        uri = params.text_document.uri
        path = to_fs_path(uri)
        if path is None or not self.files.is_ours(path):
            return []
        return [
            lsp.CodeLens(
                self.range(uri, (line, 0), (line, 0)),
                lsp.Command(f"compiles to {words}", "etcompile.showRendered", arguments=[uri]),
            )
            for line, words in self.files.summary(path)
        ]

    def rendered(self, uri: str) -> str:
        """What a file compiles to, as YAML; what is wrong with it as comments."""
        path = to_fs_path(uri)
        compilation = self.files.rendered(path or "")
        if not compilation.ok:
            return "".join(f"# {found.message}\n" for found in compilation.diagnostics)
        return "".join(emit.stream(compilation.in_order(), compilation.sources))


def _word(kind: lsp.CodeActionKind | str | None) -> str:
    """A kind of action as the protocol writes it."""
    return str(kind.value if isinstance(kind, lsp.CodeActionKind) else kind)


def _scalar(word: str) -> str:
    """A value as it is written in YAML."""
    text = emit.to_yaml({"x": word}) if word not in ("true", "false") else f"x: {word}"
    return text.partition(": ")[2].strip()


def server(options: OptionsOf) -> EditorServer:
    """A server with all that it answers."""
    made = EditorServer(options)
    _follow(made)
    kinds = lsp.CodeActionOptions([lsp.CodeActionKind.QuickFix, _FIX_ALL])
    made.feature(lsp.TEXT_DOCUMENT_CODE_ACTION, kinds)(_function(made.actions))
    made.feature(lsp.TEXT_DOCUMENT_HOVER)(_function(made.hover))
    made.feature(lsp.TEXT_DOCUMENT_COMPLETION, lsp.CompletionOptions(trigger_characters=[" "]))(
        _function(made.completion)
    )
    made.feature(lsp.TEXT_DOCUMENT_DEFINITION)(_function(made.definition))
    made.feature(lsp.TEXT_DOCUMENT_CODE_LENS)(_function(made.lenses))
    made.command(RENDER)(_function(made.rendered))
    return made


def _function(method: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A method as a function, on which the library may write what it answers."""

    def answer(given: Any) -> Any:
        return method(given)

    return answer


def _follow(made: EditorServer) -> None:
    """Has a server follow the texts that are open."""

    @made.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    async def opened(params: lsp.DidOpenTextDocumentParams) -> None:
        made.changed(params.text_document.uri, at_once=True)

    @made.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    async def changed(params: lsp.DidChangeTextDocumentParams) -> None:
        made.changed(params.text_document.uri)

    @made.feature(lsp.TEXT_DOCUMENT_DID_SAVE)
    def saved(_params: lsp.DidSaveTextDocumentParams) -> None:
        # Another file may have waited for what is there now.
        for uri in [*made.found]:
            made.look(uri)

    @made.feature(lsp.INITIALIZED)
    async def ready(_params: lsp.InitializedParams) -> None:
        workspace = made.client_capabilities.workspace
        watching = workspace.did_change_watched_files if workspace else None
        if watching is None or not watching.dynamic_registration:
            return
        watched = lsp.DidChangeWatchedFilesRegistrationOptions([lsp.FileSystemWatcher(_WATCHED)])
        method = lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES
        wish = lsp.Registration(f"{_NAME}.files", method, watched)
        await made.client_register_capability_async(lsp.RegistrationParams([wish]))

    @made.feature(lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    async def changed_elsewhere(_params: lsp.DidChangeWatchedFilesParams) -> None:
        # A configuration file, an overlay, a job that a file names: it may be any.
        for uri in [*made.found]:
            made.look_soon(uri)

    @made.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: lsp.DidCloseTextDocumentParams) -> None:
        made.closed(params.text_document.uri)
