// npm `@agentclientprotocol/sdk` drives an agent as an editor would: node acp_client.mjs TASK FOLDER, where FOLDER holds the package.
// It allows every permission but the one at which the agent is killed, and has text of a file that is not saved.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createRequire } from "node:module";
import path from "node:path";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [given, folder] = process.argv.slice(2);
const task = JSON.parse(given);
const require = createRequire(path.join(folder, "package.json"));
const { client, methods, ndJsonStream, PROTOCOL_VERSION } = await import(
  pathToFileURL(path.join(folder, "node_modules", "@agentclientprotocol", "sdk", "dist", "v1", "stable", "acp.js")).href
);

const seen = { asked: [], updates: [], read: [], wrote: 0 };
const say = (text) => [{ type: "text", text }];
const limit = setTimeout(() => fail(new Error(`not done after ${task.seconds} s: ${JSON.stringify(seen)}`)), task.seconds * 1000);

function fail(error) {
  console.error(error);
  process.exit(1);
}

function signal() {
  let set;
  const when = new Promise((resolve) => (set = resolve));
  return { set, when };
}

async function connected(answers, work) {
  const agent = spawn(task.command, task.args, { cwd: task.cwd, env: task.env, stdio: ["pipe", "pipe", "inherit"] });
  const began = signal();
  const question = signal();
  const editor = client({ name: "test" })
    .onRequest(methods.client.session.requestPermission, async ({ params }) => {
      seen.asked.push(params.options.map((option) => option.kind));
      question.set();
      if (!answers.yes) return await new Promise(() => {});
      return { outcome: { outcome: "selected", optionId: params.options[0].optionId } };
    })
    .onRequest(methods.client.fs.readTextFile, async ({ params }) => {
      seen.read.push(params.path);
      return { content: task.unsaved };
    })
    .onRequest(methods.client.fs.writeTextFile, async () => {
      seen.wrote += 1;
      return {};
    })
    .onNotification(methods.client.session.update, ({ params }) => {
      seen.updates.push(params.update);
      if (params.update.sessionUpdate === "tool_call" && params.update.title.startsWith("sleep")) began.set();
    });
  try {
    await editor.connectWith(ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout)), async (ctx) => {
      const clientCapabilities = { fs: { readTextFile: true, writeTextFile: true }, terminal: false };
      const hello = await ctx.request(methods.agent.initialize, { protocolVersion: PROTOCOL_VERSION, clientCapabilities });
      await work(ctx, { agent, began: began.when, question: question.when, hello });
    });
  } catch (error) {
    if (!agent.killed) fail(error);
  }
  agent.stdin.destroy();
  if (agent.exitCode === null && agent.signalCode === null) await once(agent, "exit");
}

let session;
const prompt = (ctx, text) => ctx.request(methods.agent.session.prompt, { sessionId: session, prompt: say(text) });
const answers = { yes: true };
await connected(answers, async (ctx, { agent, began, question, hello }) => {
  seen.version = hello.protocolVersion;
  const made = await ctx.request(methods.agent.session.new, { cwd: task.cwd, mcpServers: [] });
  session = seen.session = made.sessionId;
  seen.modes = made.modes.availableModes.map((mode) => mode.id);
  seen.first = (await prompt(ctx, "edit")).stopReason;
  const waiting = prompt(ctx, "wait");
  await began;
  await ctx.notify(methods.agent.session.cancel, { sessionId: session });
  seen.second = (await waiting).stopReason;
  await ctx.request(methods.agent.session.setMode, { sessionId: session, modeId: "untrusted" });
  answers.yes = false;
  const before = seen.asked.length;
  prompt(ctx, "ask").catch(() => {});
  while (seen.asked.length === before) await new Promise((resolve) => setTimeout(resolve, 10));
  const gone = once(agent, "exit");
  agent.kill("SIGKILL");
  await gone;
});
seen.before = seen.updates;
seen.updates = [];
await connected({ yes: true }, async (ctx, { question }) => {
  seen.listed = (await ctx.request(methods.agent.session.list, {})).sessions.map((row) => row.sessionId);
  await ctx.request(methods.agent.session.load, { sessionId: session, cwd: task.cwd, mcpServers: [] });
  await question; // the one that was open: it is allowed this time
  seen.replayed = seen.updates; // the package hands out an answer before updates that came in front of it
  seen.updates = [];
  seen.third = (await prompt(ctx, "more")).stopReason;
});
clearTimeout(limit);
console.log(JSON.stringify(seen));
process.exit(0);
