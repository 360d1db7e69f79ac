// The TypeScript SDK over HTTP, either line and era: node typescript_http.mjs TASK FOLDER, where FOLDER holds the installed package.
// TASK: {url, token, line: "typescript1" | "typescript2", era: "legacy" | "modern", scene}. A line is printed for what the test waits for, and at the end
// what happened.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import path from "node:path";

const [given, folder] = process.argv.slice(2);
const task = JSON.parse(given);
const require = createRequire(path.join(folder, "package.json"));
const load = (name) => import(pathToFileURL(require.resolve(name)).href);
const tell = (word) => console.log(JSON.stringify({ word }));

const { Client, Transport, elicit } = task.line === "typescript1" ? await loadV1() : await loadV2();

async function loadV1() {
  const { Client } = await load("@modelcontextprotocol/sdk/client/index.js");
  const { StreamableHTTPClientTransport } = await load("@modelcontextprotocol/sdk/client/streamableHttp.js");
  const { ElicitRequestSchema } = await load("@modelcontextprotocol/sdk/types.js");
  return { Client, Transport: StreamableHTTPClientTransport, elicit: ElicitRequestSchema };
}

async function loadV2() {
  const { Client, StreamableHTTPClientTransport } = await load("@modelcontextprotocol/client");
  return { Client, Transport: StreamableHTTPClientTransport, elicit: "elicitation/create" };
}

const questions = [];
const progress = [];
const settings = { capabilities: { elicitation: {} } };
if (task.era === "modern") settings.versionNegotiation = { mode: "auto" };
const client = new Client({ name: "test", version: "0" }, settings);
client.setRequestHandler(elicit, async (request) => {
  questions.push(request.params.message);
  return { action: "accept", content: { decision: "approved" } };
});
const requestInit = { headers: { Authorization: `Bearer ${task.token}` } };
await client.connect(new Transport(new URL(task.url), { requestInit }));
tell("connected");

const leaving = new AbortController();
const options = {
  signal: leaving.signal,
  timeout: 1000 * (task.seconds ?? 600),
  onprogress: (step) => {
    if (progress.length === 0) tell("progress");
    progress.push(step.message ?? "");
  },
};
const call = (name, given) => {
  const params = { name, arguments: given };
  return task.line === "typescript1" ? client.callTool(params, undefined, options) : client.callTool(params, options);
};

const scenes = {
  async reply() {
    const first = (await call("codex", { prompt: "make a file" })).structuredContent;
    const second = (await call("codex-reply", { threadId: first.threadId, prompt: "and now?" })).structuredContent;
    return { answers: [first.content, second.content] };
  },
  async once() {
    const result = await call("codex", { prompt: "x" });
    return { answers: [result.structuredContent.content], failed: result.isError ?? false };
  },
  // Something happens to the server between two calls.
  async pause() {
    const first = (await call("codex", { prompt: "x" })).structuredContent;
    tell("between");
    await new Promise((go) => process.stdin.once("data", go));
    const second = await call("codex-reply", { threadId: first.threadId, prompt: "and now?" });
    return { answers: [first.content, second.structuredContent.content], failed: second.isError ?? false };
  },
  // Something happens in the middle of a call. A program that is told so comes back for the answer; then both go on.
  async broken() {
    let result, error = null;
    try {
      result = await call("codex", { prompt: "x" });
    } catch (raised) {
      error = `${raised.name}: ${raised.message}`;
      options.timeout = 600_000; // the server may have to start first
      const [, threadId] = /\(thread ([^)]+)\)/.exec(progress[0]);
      result = await call("codex-reply", { threadId });
    }
    const { threadId, content } = result.structuredContent;
    const again = (await call("codex-reply", { threadId, prompt: "go on" })).structuredContent;
    return { answers: [content, again.content], failed: result.isError ?? false, error };
  },
  async cancel() {
    const running = call("codex", { prompt: "x" }).catch((error) => error);
    process.stdin.once("data", () => leaving.abort("enough"));
    await running;
    return { answers: [] };
  },
};

const happened = await scenes[task.scene]();
const tools = (await client.listTools()).tools.map((tool) => tool.name);
process.stdin.destroy();
await client.close();
console.log(JSON.stringify({ tools, questions, progress, ...happened }));
process.exit(0);
