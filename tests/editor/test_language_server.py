"""A real client of the Language Server Protocol talks to `etcompile lsp` over standard streams."""

import asyncio
import contextlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient

from commandline import etcompile

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.programs  # each test starts a server, and waits for what it says
MISTAKES = (
    (ROOT / "tests" / "fixes" / "before.yaml")
    .read_text("utf-8")
    .replace("PytorchReplicaSpecs", "pytorchReplicaSpecs")
)
"""Without the mistake that keeps the others from being found in the same run."""
CORRECT = (ROOT / "tests" / "fixes" / "after.yaml").read_text("utf-8")

EXAMPLE = ROOT / "examples" / "trainingjob" / "elastic-mnist"
JOB = (EXAMPLE / "job.yaml").read_text("utf-8")
INTENT = (EXAMPLE / "scale-1-out.yaml").read_text("utf-8")


class Editor:
    """An editor with a folder."""

    def __init__(self, folder, client):
        self.folder = folder
        self.client = client
        self.texts = {}
        self.versions = {}
        self.published = {}
        self.registered = []
        self.arrival = asyncio.Condition()

    def uri(self, name):
        return (self.folder / name).as_uri()

    async def hear(self, params):
        async with self.arrival:
            self.published[params.uri] = params
            self.arrival.notify_all()

    async def shows(self, name, version=None):
        """The diagnostics of a version of a file, once they are there."""
        uri = self.uri(name)
        wanted = self.versions[uri] if version is None else version

        def is_there():
            return uri in self.published and self.published[uri].version == wanted

        async with self.arrival:
            await asyncio.wait_for(self.arrival.wait_for(is_there), 60)
        return self.published[uri].diagnostics

    async def opens(self, name, text, *, is_saved=True):
        uri = self.uri(name)
        if is_saved:
            (self.folder / name).write_text(text, "utf-8")
        self.texts[uri], self.versions[uri] = text, 1
        item = lsp.TextDocumentItem(uri=uri, language_id="yaml", version=1, text=text)
        self.client.text_document_did_open(lsp.DidOpenTextDocumentParams(item))
        return await self.shows(name)

    async def comes_to_show(self, name, count):
        """As many errors, however often the server looks until then."""
        uri = self.uri(name)

        def errors():
            diagnostics = self.published[uri].diagnostics
            return [d for d in diagnostics if d.severity == lsp.DiagnosticSeverity.Error]

        async with self.arrival:
            await asyncio.wait_for(self.arrival.wait_for(lambda: len(errors()) == count), 60)
        return errors()

    async def edits(self, name, *changes):
        """Changes of parts of a text: a range, and what is to stand there."""
        uri = self.uri(name)
        self.versions[uri] += 1
        about = lsp.VersionedTextDocumentIdentifier(version=self.versions[uri], uri=uri)
        events = [
            lsp.TextDocumentContentChangePartial(
                lsp.Range(lsp.Position(line, start), lsp.Position(line, end)), text
            )
            for line, start, end, text in changes
        ]
        self.client.text_document_did_change(lsp.DidChangeTextDocumentParams(about, events))
        return await self.shows(name)

    async def types(self, name, text):
        uri = self.uri(name)
        self.texts[uri] = text
        self.versions[uri] += 1
        about = lsp.VersionedTextDocumentIdentifier(version=self.versions[uri], uri=uri)
        change = lsp.TextDocumentContentChangeWholeDocument(text)
        params = lsp.DidChangeTextDocumentParams(about, [change])
        self.client.text_document_did_change(params)
        return await self.shows(name)

    def about(self, name):
        return lsp.TextDocumentIdentifier(self.uri(name))

    async def actions(self, name, line, only=None):
        span = lsp.Range(lsp.Position(line, 0), lsp.Position(line, 0))
        context = lsp.CodeActionContext([], only=only)
        params = lsp.CodeActionParams(self.about(name), span, context)
        return await self.client.text_document_code_action_async(params)

    async def hovers(self, name, line, column):
        params = lsp.HoverParams(self.about(name), lsp.Position(line, column))
        hover = await self.client.text_document_hover_async(params)
        return hover.contents.value if hover else None


def changed(text, edit, uri):
    """A text with the edits of an action, as an editor makes them: columns count UTF-16 units."""
    for change in sorted(edit.changes[uri], key=lambda e: e.range.start.line, reverse=True):
        lines = text.splitlines(keepends=True)
        starts = [sum(map(len, lines[:n])) for n in range(len(lines) + 1)]
        first, last = (
            starts[place.line] + len(_units(lines, place))
            for place in (change.range.start, change.range.end)
        )
        text = text[:first] + change.new_text + text[last:]
    return text


def _units(lines, place):
    if place.line >= len(lines):
        return ""
    units = lines[place.line].encode("utf-16-le")[: place.character * 2]
    return units.decode("utf-16-le")


def with_editor(tmp_path, scenario, *options, watches=False):
    """Plays a scenario in an editor that has started the server, which ends as it is told."""

    async def play():
        client = LanguageClient("test", "1")
        editor = Editor(tmp_path, client)
        client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(
            lambda params: asyncio.ensure_future(editor.hear(params))
        )
        await client.start_io(sys.executable, "-m", "etcompile", "lsp", *options)
        root = tmp_path.as_uri()
        watching = lsp.DidChangeWatchedFilesClientCapabilities(dynamic_registration=watches)
        workspace = lsp.WorkspaceClientCapabilities(did_change_watched_files=watching)
        capabilities = lsp.ClientCapabilities(workspace=workspace)

        @client.feature(lsp.CLIENT_REGISTER_CAPABILITY)
        def registered(params):
            editor.registered += [wish.method for wish in params.registrations]

        await client.initialize_async(lsp.InitializeParams(capabilities, root_uri=root))
        client.initialized(lsp.InitializedParams())
        try:
            return await scenario(editor)
        finally:
            await client.shutdown_async(None)
            client.exit(None)
            process = client._server  # noqa: SLF001 - the library has no other name for it
            editor.exit_code = await asyncio.wait_for(process.wait(), 60)
            with contextlib.suppress(Exception):
                await asyncio.wait_for(client.stop(), 60)
            assert editor.exit_code == 0

    return asyncio.run(asyncio.wait_for(play(), 300))


def numbered(text, words):
    """The line, from 0, that holds these words."""
    [line] = [n for n, line in enumerate(text.splitlines()) if words in line]
    return line


def test_what_check_says_is_shown_as_it_is_typed(tmp_path):
    async def scenario(editor):
        first = await editor.opens("job.yaml", MISTAKES)
        after = await editor.types("job.yaml", CORRECT)
        broken = await editor.types("job.yaml", CORRECT.replace("spec:", "spec: [", 1))
        return first, after, broken

    first, after, broken = with_editor(tmp_path, scenario)
    checked = etcompile("check", tmp_path / "job.yaml", "--output-format", "json")
    wanted = json.loads(checked.stdout)["diagnostics"]
    assert [(d.code, d.range.start.line + 1, d.range.start.character + 1) for d in first] == [
        (d["code"], d["line"], d["column"]) for d in wanted
    ]
    assert [d.code for d in after] == ["ET9001"]
    assert after[0].severity == lsp.DiagnosticSeverity.Warning
    assert [d.severity for d in broken] == [lsp.DiagnosticSeverity.Error]


def test_a_quick_fix_is_the_correction_of_check(tmp_path):
    async def scenario(editor):
        await editor.opens("job.yaml", MISTAKES)
        line = numbered(MISTAKES, "comand")
        one = await editor.actions("job.yaml", line, [lsp.CodeActionKind.QuickFix])
        every = await editor.actions("job.yaml", 0, [lsp.CodeActionKind.SourceFixAll])
        return line, one, every, editor.uri("job.yaml")

    line, [one], [every], uri = with_editor(tmp_path, scenario)
    assert one.title == "Rename 'comand' to 'command'"
    assert one.is_preferred is False
    assert one.diagnostics[0].range.start.line == line
    assert changed(MISTAKES, one.edit, uri) == MISTAKES.replace("comand", "command")
    guessed = CORRECT.replace("command:", "comand:").replace("256Gi", "256GB")
    assert changed(MISTAKES, every.edit, uri) == guessed


def test_places_count_as_the_editor_counts(tmp_path):
    text = CORRECT.replace("name: llama", 'name: llama, annotations: {"a": "🎈🎈", "b": 7}')
    text = text.replace("  name: llama", "  {name: llama").replace('"b": 7}', '"b": 7}}')
    text = text.replace("metadata:\n", "metadata:\n").replace("  namespace: ml\n", "")

    async def scenario(editor):
        diagnostics = await editor.opens("job.yaml", text)
        actions = await editor.actions("job.yaml", 4)
        return diagnostics, actions, editor.uri("job.yaml")

    diagnostics, actions, uri = with_editor(tmp_path, scenario)
    line = text.splitlines()[4]
    [diagnostic] = [d for d in diagnostics if d.code == "ET2006" or "text" in d.message]
    assert diagnostic.range.start.character == len(line[: line.index("7")].encode("utf-16-le")) // 2
    quick = next(a for a in actions if a.kind == lsp.CodeActionKind.QuickFix)
    assert changed(text, quick.edit, uri) == text.replace('"b": 7', '"b": "7"')


def test_hover_explains_a_diagnostic(tmp_path):
    async def scenario(editor):
        await editor.opens("job.yaml", MISTAKES)
        line = numbered(MISTAKES, "onFailure")
        wrong = await editor.hovers("job.yaml", line, 24)
        return wrong, await editor.hovers("job.yaml", line, 2)

    wrong, nothing = with_editor(tmp_path, scenario)
    assert "not-allowed" in wrong
    assert nothing is None


def test_a_scale_intent_leads_to_its_job_in_another_file(tmp_path):
    (tmp_path / "unrelated.yaml").write_text(CORRECT, "utf-8")

    async def scenario(editor):
        (tmp_path / "job.yaml").write_text(JOB, "utf-8")
        diagnostics = await editor.opens("scale.yaml", INTENT)
        lines = INTENT.splitlines()
        line = numbered(INTENT, "selector")
        at = lsp.Position(line, lines[line].index("name:") + 8)
        params = lsp.DefinitionParams(editor.about("scale.yaml"), at)
        return diagnostics, await editor.client.text_document_definition_async(params)

    diagnostics, target = with_editor(tmp_path, scenario)
    assert [d.message for d in diagnostics if d.severity == lsp.DiagnosticSeverity.Error] == []
    assert target.uri == (tmp_path / "job.yaml").as_uri()
    line = JOB.splitlines()[target.range.start.line]
    assert line[target.range.start.character : target.range.end.character] == "elastic-mnist"


def test_unsaved_change_counts_for_other_files_of_the_folder(tmp_path):
    async def scenario(editor):
        await editor.opens("job.yaml", JOB)
        before = await editor.opens("scale.yaml", INTENT)
        await editor.types("job.yaml", JOB.replace("name: elastic-mnist\n", "name: other\n"))
        after = await editor.types("scale.yaml", INTENT + "\n")
        return before, after

    before, after = with_editor(tmp_path, scenario)
    errors = [d for d in after if d.severity == lsp.DiagnosticSeverity.Error]
    assert not [d for d in before if d.severity == lsp.DiagnosticSeverity.Error]
    assert errors
    assert (tmp_path / "job.yaml").read_text("utf-8") == JOB


def test_what_a_file_names_is_looked_at_as_that_changes(tmp_path):
    configuration = tmp_path / "etcompile.toml"

    def changes(editor, file, kind):
        event = lsp.FileEvent(file.as_uri(), kind)
        editor.client.workspace_did_change_watched_files(lsp.DidChangeWatchedFilesParams([event]))

    async def scenario(editor):
        await editor.opens("job.yaml", JOB)
        await editor.opens("scale.yaml", INTENT)
        await editor.types("job.yaml", JOB.replace("name: elastic-mnist\n", "name: other\n"))
        [missing] = await editor.comes_to_show("scale.yaml", 1)
        assert "elastic-mnist" in missing.message
        await editor.types("job.yaml", JOB)
        await editor.comes_to_show("scale.yaml", 0)
        configuration.write_text('gnag = "none"\n', "utf-8")
        changes(editor, configuration, lsp.FileChangeType.Created)
        [unknown] = await editor.comes_to_show("scale.yaml", 1)
        assert "there is no setting 'gnag'" in unknown.message
        configuration.unlink()
        changes(editor, configuration, lsp.FileChangeType.Deleted)
        await editor.comes_to_show("scale.yaml", 0)
        closing = lsp.DidCloseTextDocumentParams(editor.about("job.yaml"))
        editor.client.text_document_did_close(closing)
        (tmp_path / "job.yaml").unlink()
        changes(editor, tmp_path / "job.yaml", lsp.FileChangeType.Deleted)
        await editor.comes_to_show("scale.yaml", 1)
        return editor.registered

    assert with_editor(tmp_path, scenario, watches=True) == ["workspace/didChangeWatchedFiles"]


def test_a_file_that_nobody_has_saved_yet_is_looked_at(tmp_path):
    async def scenario(editor):
        wrong = CORRECT.replace("OnFailure", "onFailure")
        first = await editor.opens("new.yaml", wrong, is_saved=False)
        return first, await editor.types("new.yaml", CORRECT)

    before, after = with_editor(tmp_path, scenario)
    assert [d.code for d in before] == ["ET2007"]
    assert [d.code for d in after] == ["ET9001"]


def test_json_and_lists_are_looked_at(tmp_path):
    wrong = CORRECT.replace("OnFailure", "onFailure")
    value = yaml.safe_load(wrong)
    body = wrong[wrong.index("apiVersion") :]

    async def scenario(editor):
        within = body.strip().replace("\n", "\n  ")
        shown = [
            await editor.opens("a.json", json.dumps(value)),
            await editor.opens("b.json", json.dumps(value, indent=2)),
            await editor.opens("c.yaml", f"apiVersion: v1\nkind: List\nitems:\n- {within}\n"),
            await editor.opens("d.yaml", wrong.replace("\n", "\r")),
        ]
        text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  job: |\n"
        return shown, await editor.opens("e.yaml", f"{text}    {within}\n")

    shown, text = with_editor(tmp_path, scenario)
    assert ["ET2007" in [d.code for d in diagnostics] for diagnostics in shown] == [True] * 4
    assert not text


def test_parts_of_a_text_are_changed_where_the_editor_says(tmp_path):
    async def scenario(editor):
        await editor.opens("job.yaml", CORRECT)
        image, policy = (numbered(CORRECT, words) for words in ("image:", "restartPolicy"))
        end = len(CORRECT.splitlines()[image])
        start = CORRECT.splitlines()[policy].index("OnFailure")
        await editor.edits(
            "job.yaml",
            (image, end, end, " # \U0001f388\U0001f388"),
            # One balloon less: it counts as two.
            (image, end + 3, end + 5, ""),
            (policy, start, start + 1, "o"),
        )
        [action, *_] = await editor.actions("job.yaml", policy)
        [edit] = action.edit.changes[editor.uri("job.yaml")]
        return edit.range.start == lsp.Position(policy, start), edit.new_text

    assert with_editor(tmp_path, scenario) == (True, "OnFailure")


@pytest.mark.parametrize(
    "text",
    [
        "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nspec:\n  a: [",
        "apiVersion: kubeflow.org/v1\n\tkind: x\n",
        "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nspec: &a\n  b: *a\n",
        f"apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nspec: {'[' * 3000}",
        "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {{ x }}\n",
        "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata:\n  name: x\0y\n",
    ],
)
def test_a_text_that_is_broken_is_answered_like_any_other(text, tmp_path):
    async def scenario(editor):
        shown = await editor.opens("job.yaml", text)
        line = text.count("\n")
        await editor.hovers("job.yaml", 1, 2)
        await editor.actions("job.yaml", line)
        params = lsp.CodeLensParams(editor.about("job.yaml"))
        await editor.client.text_document_code_lens_async(params)
        return shown, await editor.types("job.yaml", CORRECT)

    shown, after = with_editor(tmp_path, scenario)
    assert shown
    assert [d.code for d in after] == ["ET9001"]


def test_a_lens_tells_what_a_job_compiles_to_and_a_command_shows_it(tmp_path):
    async def scenario(editor):
        await editor.opens("job.yaml", CORRECT)
        lenses = await editor.client.text_document_code_lens_async(
            lsp.CodeLensParams(editor.about("job.yaml"))
        )
        params = lsp.ExecuteCommandParams("etcompile.render", arguments=[editor.uri("job.yaml")])
        return lenses, await editor.client.workspace_execute_command_async(params)

    [lens], text = with_editor(tmp_path, scenario)
    assert lens.range.start.line == numbered(CORRECT, "kind: PyTorchJob")
    assert "2 Pods" in lens.command.title
    kinds = [value["kind"] for value in yaml.safe_load_all(text)]
    assert kinds.count("Pod") == 2


def test_files_of_others_are_left_alone(tmp_path):
    async def scenario(editor):
        other = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: 3\n"
        return await editor.opens("deployment.yaml", other), await editor.opens(
            "notes.yaml", "a: ["
        )

    assert [list(diagnostics) for diagnostics in with_editor(tmp_path, scenario)] == [[], []]


def test_options_of_the_command_line_count(tmp_path):
    async def scenario(editor):
        return await editor.opens("job.yaml", CORRECT)

    assert [*with_editor(tmp_path, scenario, "--ignore", "ET9001")] == []


def test_without_the_extra_the_command_says_what_to_install(tmp_path):
    program = "import sys; sys.modules['pygls'] = None; from etcompile.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "lsp"], capture_output=True, check=False, text=True
    )
    assert done.returncode == 1
    assert "install the extra etcompile[lsp], as docs/install.md shows" in done.stderr
