// The TypeScript SDK, either line: list tools, call `codex` with an approval, go on with `codex-reply`.
// node typescript_sdk.mjs TASK FOLDER PACKAGE, where FOLDER holds the installed PACKAGE.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import path from "node:path";

const [task, folder, line] = process.argv.slice(2);
const require = createRequire(path.join(folder, "package.json"));
const load = (name) => import(pathToFileURL(require.resolve(name)).href);

const { Client, StdioClientTransport, elicit } = line === "v1" ? await loadV1() : await loadV2();

async function loadV1() {
  const { Client } = await load("@modelcontextprotocol/sdk/client/index.js");
  const { StdioClientTransport } = await load("@modelcontextprotocol/sdk/client/stdio.js");
  const { ElicitRequestSchema } = await load("@modelcontextprotocol/sdk/types.js");
  return { Client, StdioClientTransport, elicit: ElicitRequestSchema };
}

async function loadV2() {
  const { Client } = await load("@modelcontextprotocol/client");
  const { StdioClientTransport } = await load("@modelcontextprotocol/client/stdio");
  return { Client, StdioClientTransport, elicit: "elicitation/create" };
}

const questions = [];
const events = [];
const progress = [];
const client = new Client({ name: "test", version: "0" }, { capabilities: { elicitation: {} } });
client.setRequestHandler(elicit, async (request) => {
  questions.push(request.params.message);
  return { action: "accept", content: {} };
});
client.fallbackNotificationHandler = async (notification) => {
  if (notification.method === "codex/event") events.push(notification.params.msg.type);
};
await client.connect(new StdioClientTransport(JSON.parse(task)));
const tools = (await client.listTools()).tools.map((tool) => tool.name);
const options = { onprogress: (step) => progress.push(step.message ?? "") };
const call = (params) => (line === "v1" ? client.callTool(params, undefined, options) : client.callTool(params, options));
const first = await call({ name: "codex", arguments: { prompt: "make a file" } });
const thread = first.structuredContent.threadId;
const second = await call({ name: "codex-reply", arguments: { threadId: thread, prompt: "and now?" } });
await client.close();
console.log(JSON.stringify({ tools, questions, events, progress, answers: [first.structuredContent, second.structuredContent] }));
