// Plays VS Code for the packaged extension, where the editor itself cannot be had: a stand-in for the module `vscode`,
// beneath which the extension and its real client run against the real server.
//
//     node drive.js COMMAND PROGRAM     prints as JSON what the extension had the editor show

const Module = require("node:module");
const fs = require("node:fs");
const path = require("node:path");

const [command, program] = process.argv.slice(2);
const seen = { diagnostics: [], commands: [], errors: [] };
const listeners = {};
const disposable = () => ({ dispose() {} });

class Position {
  constructor(line, character) { Object.assign(this, { line, character }); }
}
class Range {
  constructor(start, end, endLine, endCharacter) {
    this.start = typeof start === "number" ? new Position(start, end) : start;
    this.end = typeof start === "number" ? new Position(endLine, endCharacter) : end;
  }
}
class Uri {
  constructor(fsPath) { this.fsPath = fsPath; this.scheme = "file"; this.path = fsPath; }
  static parse(text) { return new Uri(decodeURIComponent(text.replace("file://", ""))); }
  static file(fsPath) { return new Uri(fsPath); }
  toString() { return `file://${this.fsPath}`; }
}
class CodeActionKind {
  constructor(value) { this.value = value; }
  append(part) { return new CodeActionKind(this.value ? `${this.value}.${part}` : part); }
}
CodeActionKind.Empty = new CodeActionKind("");
for (const name of ["QuickFix", "Refactor", "RefactorExtract", "RefactorInline", "RefactorRewrite", "Source", "SourceOrganizeImports"]) {
  CodeActionKind[name] = new CodeActionKind(name.replace(/(?!^)([A-Z])/g, ".$1").toLowerCase());
}
class EventEmitter {
  constructor() { this.all = []; this.event = (listener) => { this.all.push(listener); return disposable(); }; }
  fire(value) { this.all.forEach((each) => each(value)); }
  dispose() {}
}
class Diagnostic {
  constructor(range, message, severity) { Object.assign(this, { range, message, severity }); }
}
class Disposable {
  constructor(end) { this.end = end; }
  dispose() { this.end?.(); }
  static from(...all) { return new Disposable(() => all.forEach((each) => each.dispose())); }
}
class CancellationTokenSource {
  constructor() { this.token = { isCancellationRequested: false, onCancellationRequested: disposable }; }
  cancel() {}
  dispose() {}
}

const document = {
  uri: Uri.file(program), languageId: "python", version: 1, isClosed: false, isDirty: false, fileName: program,
  getText: () => fs.readFileSync(program, "utf8"),
};
const settings = { get: (key) => ({ "gpudoctor.path": command, path: command })[key], inspect: () => undefined, has: () => false };
const collection = () => ({
  set(uri, found) { seen.diagnostics.push([path.basename(uri.fsPath), (found || []).map((each) => each.code?.value ?? each.code)]); },
  delete() {}, clear() {}, dispose() {}, has: () => false,
});

// What nobody asked for by name: events, registrations, enumerations, classes.
const room = (known) => new Proxy(known, {
  get(target, name) {
    if (name in target || typeof name === "symbol" || name === "then") return target[name];
    if (/^on[A-Z]/.test(name)) return (listener) => { (listeners[name] ??= []).push(listener); return disposable(); };
    return (...given) => { if (name === "showErrorMessage") seen.errors.push(given[0]); return room({ dispose() {} }); };
  },
});
const other = () => new Proxy(class {}, {
  get: (target, name) => (name in target || typeof name === "symbol" ? target[name] : String(name)),
});
const vscode = new Proxy({
  Position, Range, Uri, CodeActionKind, EventEmitter, Diagnostic, Disposable, CancellationTokenSource, version: "1.82.0",
  workspace: room({
    textDocuments: [document], notebookDocuments: [], workspaceFolders: [{ uri: Uri.file(path.dirname(program)), name: "x", index: 0 }],
    getConfiguration: () => settings, getWorkspaceFolder: () => ({ uri: Uri.file(path.dirname(program)) }),
  }),
  window: room({
    createOutputChannel: () => ({
      append: (text) => process.stderr.write(text), appendLine: (text) => process.stderr.write(`${text}\n`),
      show() {}, clear() {}, dispose() {},
    }),
    activeTextEditor: { document }, visibleTextEditors: [{ document }],
    tabGroups: { all: [], onDidChangeTabs: disposable, onDidChangeTabGroups: disposable },
  }),
  languages: room({ match: () => 10, createDiagnosticCollection: collection }),
  commands: room({ registerCommand(name) { seen.commands.push(name); return disposable(); } }),
  extensions: room({ getExtension: () => undefined }),
  env: room({ language: "en", appName: "drive" }),
  notebooks: room({}),
}, { get: (target, name) => (name in target ? target[name] : typeof name === "symbol" ? undefined : (target[name] = other())) });

const load = Module._load;
Module._load = (name, ...rest) => (name === "vscode" ? vscode : load(name, ...rest));

async function main() {
  const extension = require(path.join(__dirname, "..", "dist", "extension.js"));
  await extension.activate({ subscriptions: [] });
  const until = Date.now() + 30000;
  while (!seen.diagnostics.some(([, codes]) => codes.length) && !seen.errors.length && Date.now() < until) {
    await new Promise((done) => setTimeout(done, 20));
  }
  await extension.deactivate();
  console.log(JSON.stringify(seen));
  process.exit(0);
}

main().catch((error) => { console.error(error); process.exit(1); });
