// Starts `gpudoctor server`, and does what a server cannot: opens a terminal, shows a text beside the program.

import * as fs from "node:fs";
import * as path from "node:path";
import * as vscode from "vscode";
import { ExecuteCommandSignature, LanguageClient, LanguageClientOptions } from "vscode-languageclient/node";

const KEYS = ["select", "extendSelect", "ignore", "exclude", "launch", "baseline"];
const SHOW_PLAN = "gpudoctor.showPlan";
const WATCH_RUN = "gpudoctor.watchRun";
const PROGRAM = process.platform === "win32" ? "gpudoctor.exe" : "gpudoctor";

let client: LanguageClient | undefined;

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  context.subscriptions.push(vscode.commands.registerCommand("gpudoctor.restart", () => restart()));
  context.subscriptions.push(
    vscode.workspace.onDidChangeConfiguration(async (event) => {
      if (event.affectsConfiguration("gpudoctor.path")) {
        await restart();
      } else if (event.affectsConfiguration("gpudoctor")) {
        await client?.sendNotification("workspace/didChangeConfiguration", { settings: { gpudoctor: settings() } });
      }
    }),
  );
  await start();
}

export async function deactivate(): Promise<void> {
  await client?.stop();
  client = undefined;
}

async function start(): Promise<void> {
  const command = await program();
  const options: LanguageClientOptions = {
    documentSelector: [
      { language: "python", scheme: "file" },
      { language: "python", scheme: "untitled" },
      { language: "python", notebook: "jupyter-notebook" },
      { language: "shellscript", scheme: "file" },
      { language: "dockerfile", scheme: "file" },
      { language: "toml", pattern: "**/{pyproject,gpudoctor,.gpudoctor}.toml" },
    ],
    initializationOptions: settings(),
    middleware: { executeCommand },
  };
  client = new LanguageClient("gpudoctor", "gpudoctor", { command, args: ["server"] }, options);
  try {
    await client.start();
  } catch {
    client = undefined;
    const hint = `gpudoctor: \`${command} server\` could not be started. Install it with pip install 'gpudoctor[lsp]', or name it in gpudoctor.path.`;
    void vscode.window.showErrorMessage(hint);
  }
}

async function restart(): Promise<void> {
  await deactivate();
  await start();
}

// Null stands for what is left to the project's own settings.
function settings(): Record<string, unknown> {
  const section = vscode.workspace.getConfiguration("gpudoctor");
  return Object.fromEntries(KEYS.map((key) => [key, section.get(key) ?? null]));
}

async function program(): Promise<string> {
  const named = vscode.workspace.getConfiguration("gpudoctor").get<string>("path");
  if (named) {
    return named;
  }
  const python = vscode.extensions.getExtension("ms-python.python");
  if (python) {
    const api = python.isActive ? python.exports : await python.activate();
    const folder = vscode.workspace.workspaceFolders?.[0]?.uri;
    const chosen: string | undefined = api?.environments?.getActiveEnvironmentPath?.(folder)?.path;
    if (chosen) {
      const home = fs.existsSync(chosen) && fs.statSync(chosen).isDirectory() ? path.join(chosen, "bin") : path.dirname(chosen);
      const beside = path.join(home, PROGRAM);
      if (fs.existsSync(beside)) {
        return beside;
      }
    }
  }
  return PROGRAM;
}

async function executeCommand(command: string, args: unknown[], next: ExecuteCommandSignature): Promise<unknown> {
  // The plan is of the program as it is saved.
  if (command === SHOW_PLAN && typeof args[0] === "string") {
    await vscode.workspace.textDocuments.find((each) => each.uri.toString() === args[0])?.save();
  }
  const answer: unknown = await next(command, args);
  if (command === WATCH_RUN && typeof answer === "string") {
    const terminal = vscode.window.createTerminal("gpudoctor run");
    terminal.show();
    // Typed, not run: how many ranks there are is for the user to say.
    terminal.sendText(answer, false);
  }
  return answer;
}
