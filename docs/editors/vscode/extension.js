// Starts `etcompile lsp`, and shows what a file compiles to beside it.

const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

const RENDERED = "etcompile-rendered";
let client;

function options() {
  const settings = vscode.workspace.getConfiguration("etcompile");
  return {
    command: settings.get("path", "etcompile"),
    args: ["lsp", ...settings.get("arguments", [])],
  };
}

async function start() {
  const languages = ["yaml", "json"].map((language) => ({ scheme: "file", language }));
  client = new LanguageClient("etcompile", "etcompile", options(), { documentSelector: languages });
  await client.start();
}

async function restart() {
  await client?.stop();
  await start();
}

// The text of a document that is not a file: what the file in its path compiles to.
const rendered = {
  changes: new vscode.EventEmitter(),
  get onDidChange() {
    return this.changes.event;
  },
  provideTextDocumentContent(uri) {
    const file = vscode.Uri.file(uri.path.replace(/\.rendered\.yaml$/, ""));
    return client.sendRequest("workspace/executeCommand", {
      command: "etcompile.render",
      arguments: [file.toString()],
    });
  },
};

async function showRendered(given) {
  const file = given ? vscode.Uri.parse(given) : vscode.window.activeTextEditor?.document.uri;
  if (!file) {
    return;
  }
  const uri = vscode.Uri.from({ scheme: RENDERED, path: `${file.path}.rendered.yaml` });
  rendered.changes.fire(uri);
  const document = await vscode.workspace.openTextDocument(uri);
  await vscode.window.showTextDocument(document, vscode.ViewColumn.Beside, true);
}

exports.activate = async function activate(context) {
  context.subscriptions.push(
    vscode.workspace.registerTextDocumentContentProvider(RENDERED, rendered),
    vscode.commands.registerCommand("etcompile.showRendered", showRendered),
    vscode.commands.registerCommand("etcompile.restart", restart),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration("etcompile")) {
        restart();
      }
    }),
  );
  await start();
};

exports.deactivate = () => client?.stop();
