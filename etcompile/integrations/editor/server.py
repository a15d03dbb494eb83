"""Serve the Language Server Protocol: problems as you type, corrections, rendered jobs.

It translates the results of `workspace`. An editor's YAML language server completes and describes
fields, by our JSON Schemas.
"""

import asyncio
from functools import partial
from importlib.metadata import version

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path, to_fs_path

from etcompile import emit
from etcompile.diagnostics import RULES, Diagnostic, Location, Severity, rule_text
from etcompile.diagnostics.diagnostic import TextEdit
from etcompile.integrations.editor.workspace import OptionsOf, Workspace

_NAME = "etcompile"
_DELAY = 0.03
"""Seconds without another keystroke after which a file is compiled."""
_WATCHED = "**/*.{yaml,yml,json,toml}"
"""Files that may affect open ones when another program changes them."""
RENDER = "etcompile.render"
"""The command that returns what a file compiles to, as YAML; its argument is the file's URI."""
_FIX_ALL = "source.fixAll.etcompile"


class EditorServer(LanguageServer):
    def __init__(self, options: OptionsOf) -> None:
        super().__init__(_NAME, version("etcompile"))
        self.files = Workspace(options)
        self.diagnostics: dict[str, list[Diagnostic]] = {}
        self.timers: dict[str, asyncio.TimerHandle] = {}

    # ---- open files ----------------------------------------------------------------------------

    def changed(self, uri: str, *, at_once: bool = False) -> None:
        """Read an open file, and check it and the open files that may refer to it."""
        path = to_fs_path(uri)
        if path is None:
            return
        self.files.texts[path] = self.workspace.get_text_document(uri).source
        if at_once:
            self.check(uri)
        else:
            self.check_soon(uri)
        for other in [*self.diagnostics]:
            other_path = to_fs_path(other)
            if other != uri and other_path is not None and self.files.refers(other_path, path):
                self.check_soon(other)

    def check_soon(self, uri: str) -> None:
        self.cancel(uri)
        loop = asyncio.get_running_loop()
        self.timers[uri] = loop.call_later(_DELAY, self.check, uri)

    def check(self, uri: str) -> None:
        self.cancel(uri)
        path = to_fs_path(uri)
        if path is None or path not in self.files.texts:
            return
        self.diagnostics[uri] = self.files.findings(path)
        shown = [self.diagnostic(uri, diagnostic) for diagnostic in self.diagnostics[uri]]
        document = self.workspace.get_text_document(uri)
        params = lsp.PublishDiagnosticsParams(uri, shown, document.version)
        self.text_document_publish_diagnostics(params)

    def cancel(self, uri: str) -> None:
        if (timer := self.timers.pop(uri, None)) is not None:
            timer.cancel()

    def closed(self, uri: str) -> None:
        self.cancel(uri)
        self.files.texts.pop(to_fs_path(uri) or "", None)
        self.diagnostics.pop(uri, None)
        self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, []))

    # ---- places --------------------------------------------------------------------------------

    def range(self, uri: str, start: tuple[int, int], end: tuple[int, int]) -> lsp.Range:
        """Return a range in units of the client, from lines and characters that count from 0."""
        document = self.workspace.get_text_document(uri)
        first, last = (
            document.position_codec.position_to_client_units(document.lines, lsp.Position(*place))
            for place in (start, end)
        )
        return lsp.Range(first, last)

    def location(self, uri: str, place: Location | None) -> lsp.Range:
        """Return the range of a place; the start of the file if it has none."""
        line = (place.line or 1) - 1 if place else 0
        column = (place.column or 1) - 1 if place else 0
        width = place.width if place and place.column else 0
        return self.range(uri, (line, column), (line, column + width))

    def diagnostic(self, uri: str, diagnostic: Diagnostic) -> lsp.Diagnostic:
        hint = f"\n{diagnostic.hint}" if diagnostic.hint else ""
        is_error = diagnostic.severity is Severity.ERROR
        return lsp.Diagnostic(
            range=self.location(uri, diagnostic.location),
            message=f"{diagnostic.message}{hint}",
            severity=lsp.DiagnosticSeverity.Error if is_error else lsp.DiagnosticSeverity.Warning,
            code=diagnostic.code,
            source=_NAME,
        )

    def edit(self, uri: str, edits: list[TextEdit]) -> lsp.WorkspaceEdit:
        changes = []
        for edit in edits:
            start, end = (edit.line - 1, edit.column - 1), (edit.end_line - 1, edit.end_column - 1)
            changes.append(lsp.TextEdit(self.range(uri, start, end), edit.text))
        return lsp.WorkspaceEdit(changes={uri: changes})

    # ---- answers -------------------------------------------------------------------------------

    def actions(self, params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        """Return the fixes of the diagnostics in a range, and one for all safe fixes."""
        uri = params.text_document.uri
        actions: list[lsp.CodeAction] = []
        has_safe_fix = False
        for diagnostic in self.diagnostics.get(uri, []):
            if diagnostic.fix is None:
                continue
            has_safe_fix = has_safe_fix or diagnostic.fix.is_safe
            shown = self.diagnostic(uri, diagnostic)
            first, last = shown.range.start.line, shown.range.end.line
            if first <= params.range.end.line and params.range.start.line <= last:
                action = lsp.CodeAction(
                    title=diagnostic.fix.title[:1].upper() + diagnostic.fix.title[1:],
                    kind=lsp.CodeActionKind.QuickFix,
                    diagnostics=[shown],
                    is_preferred=diagnostic.fix.is_safe,
                    edit=self.edit(uri, [*diagnostic.fix.edits]),
                )
                actions.append(action)
        path = to_fs_path(uri)
        if path is not None and has_safe_fix:
            title = "Correct all that can only have been meant one way"
            edit = self.edit(uri, self.files.safe_edits(path))
            actions.append(lsp.CodeAction(title=title, kind=_FIX_ALL, edit=edit))
        kinds = params.context.only
        if kinds is None:
            return actions
        return [
            action
            for action in actions
            if any((action.kind or "").startswith(kind) for kind in kinds)
        ]

    def hover(self, params: lsp.HoverParams) -> lsp.Hover | None:
        uri = params.text_document.uri
        for diagnostic in self.diagnostics.get(uri, []):
            span = self.location(uri, diagnostic.location)
            if span.start <= params.position <= span.end:
                text = rule_text.as_markdown(RULES[diagnostic.code])
                return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, text))
        return None

    def definition(self, params: lsp.DefinitionParams) -> lsp.Location | None:
        path = to_fs_path(params.text_document.uri)
        place = self.files.target(path, params.position.line + 1) if path is not None else None
        if place is None or (uri := from_fs_path(place.file)) is None:
            return None
        return lsp.Location(uri, self.location(uri, place))

    def lenses(self, params: lsp.CodeLensParams) -> list[lsp.CodeLens]:
        uri = params.text_document.uri
        path = to_fs_path(uri)
        if path is None or not self.files.is_ours(path):
            return []
        return [
            lsp.CodeLens(
                self.range(uri, (line - 1, 0), (line - 1, 0)),
                lsp.Command(f"compiles to {words}", "etcompile.showRendered", arguments=[uri]),
            )
            for line, words in self.files.summary(path)
        ]

    def rendered(self, uri: str) -> str:
        compilation = self.files.rendered(to_fs_path(uri) or "")
        if not compilation.ok:
            return "".join(f"# {problem.message}\n" for problem in compilation.diagnostics)
        return "".join(emit.stream(compilation.in_order(), compilation.sources))


def server(options: OptionsOf) -> EditorServer:
    """Create a server with handlers: partials of methods, since pygls sets attributes on them."""
    editor = EditorServer(options)
    kinds = lsp.CodeActionOptions([lsp.CodeActionKind.QuickFix, _FIX_ALL])
    editor.feature(lsp.TEXT_DOCUMENT_CODE_ACTION, kinds)(partial(editor.actions))
    editor.feature(lsp.TEXT_DOCUMENT_HOVER)(partial(editor.hover))
    editor.feature(lsp.TEXT_DOCUMENT_DEFINITION)(partial(editor.definition))
    editor.feature(lsp.TEXT_DOCUMENT_CODE_LENS)(partial(editor.lenses))
    editor.command(RENDER)(partial(editor.rendered))

    @editor.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    async def opened(params: lsp.DidOpenTextDocumentParams) -> None:
        editor.changed(params.text_document.uri, at_once=True)

    @editor.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    async def changed(params: lsp.DidChangeTextDocumentParams) -> None:
        editor.changed(params.text_document.uri)

    @editor.feature(lsp.TEXT_DOCUMENT_DID_SAVE)
    def saved(_params: lsp.DidSaveTextDocumentParams) -> None:
        # Other files may refer to this one.
        for uri in [*editor.diagnostics]:
            editor.check(uri)

    @editor.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: lsp.DidCloseTextDocumentParams) -> None:
        editor.closed(params.text_document.uri)

    @editor.feature(lsp.INITIALIZED)
    async def ready(_params: lsp.InitializedParams) -> None:
        workspace = editor.client_capabilities.workspace
        watching = workspace.did_change_watched_files if workspace else None
        if watching is None or not watching.dynamic_registration:
            return
        watched = lsp.DidChangeWatchedFilesRegistrationOptions([lsp.FileSystemWatcher(_WATCHED)])
        method = lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES
        registration = lsp.Registration(f"{_NAME}.files", method, watched)
        await editor.client_register_capability_async(lsp.RegistrationParams([registration]))

    @editor.feature(lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    async def changed_elsewhere(_params: lsp.DidChangeWatchedFilesParams) -> None:
        # It may be a configuration file, an overlay, or a job that an open file names.
        for uri in [*editor.diagnostics]:
            editor.check_soon(uri)

    return editor
