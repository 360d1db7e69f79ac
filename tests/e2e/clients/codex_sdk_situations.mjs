// The situations that the tests of OpenAI's TypeScript SDK put `codex exec` into, each with a home and a model of its own.
// argv is the task as JSON, and the folder that holds the package. Prints what went wrong in each situation, or null.
import assert from "node:assert/strict";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [task, folder] = [JSON.parse(process.argv[2]), process.argv[3]];
const { Codex } = await import(pathToFileURL(join(folder, "node_modules/@openai/codex-sdk/dist/index.js")));

// -- the model

const USAGE = {
  input_tokens: 42,
  input_tokens_details: { cached_tokens: 12 },
  output_tokens: 5,
  output_tokens_details: null,
  total_tokens: 47,
};
const begun = (id = "resp_mock") => ({ type: "response.created", response: { id } });
const said = (text, id = "msg_mock") => ({
  type: "response.output_item.done",
  item: { type: "message", role: "assistant", id, content: [{ type: "output_text", text }] },
});
const over = (id = "resp_mock") => ({ type: "response.completed", response: { id, usage: USAGE } });
const limited = { type: "error", error: { code: "rate_limit_exceeded", message: "rate limit exceeded" } };
const echo = (number) => ({
  type: "response.output_item.done",
  item: {
    type: "function_call",
    call_id: `call_id${number}`,
    name: "exec_command",
    arguments: JSON.stringify({ cmd: "echo 'Hello, world!'", yield_time_ms: 100 }),
  },
});
const whole = (text, number = 1) => [begun(`response_${number}`), said(text, `item_${number}`), over(`response_${number}`)];
const HI = [begun(), said("Hi!"), over()];

/** Answers by `answers`, a list or a function of the request's number; keeps what it is sent. */
async function modelOf(answers) {
  const requests = [];
  const server = createServer((request, response) => {
    const chunks = [];
    request.on("data", (chunk) => chunks.push(chunk));
    request.on("end", () => {
      if (request.method !== "POST" || request.url !== "/responses") return void response.writeHead(404).end();
      requests.push({ json: JSON.parse(Buffer.concat(chunks).toString("utf8")), headers: request.headers });
      const events = typeof answers === "function" ? answers(requests.length) : answers[requests.length - 1];
      if (!events) return void response.writeHead(500).end();
      response.writeHead(200, { "content-type": "text/event-stream" });
      for (const event of events) response.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
      response.end();
    });
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const close = () => (server.closeAllConnections(), new Promise((resolve) => server.close(resolve)));
  return { url: `http://127.0.0.1:${server.address().port}`, requests, close };
}

// -- a situation

class Situation {
  constructor(name, model) {
    this.model = model;
    this.home = mkdtempSync(join(task.homes, `${name.replace(/\W+/g, "-")}-`));
    this.requests = model.requests;
  }

  codex(options = {}) {
    const { config, ...others } = options;
    const provider = { name: "Mock provider for test", base_url: this.model.url, wire_api: "responses", supports_websockets: false };
    const usual = { model_provider: "mock", model_providers: { mock: provider } };
    const env = { ...process.env, ...task.env, CODEX_HOME: this.home, ARGV_FILE: join(this.home, "argv") };
    return new Codex({ codexPathOverride: task.codex, env, config: { ...config, ...usual, features: { plugins: false } }, ...others });
  }

  /** The arguments of each start of the program. */
  get argv() {
    return readFileSync(join(this.home, "argv"), "utf8").split("\0\0").slice(0, -1).map((line) => line.split("\0"));
  }

  has(flag, value) {
    assert(this.argv[0].some((word, at) => word === flag && this.argv[0][at + 1] === value), `${flag} ${value} in ${this.argv[0]}`);
  }

  values(flag, of = 0) {
    return this.argv[of].flatMap((word, at) => (word === flag ? [this.argv[of][at + 1]] : []));
  }
}

const situations = {};
const situation = (name, answers, play) => (situations[name] = { answers, play });
const TWO = [whole("First response", 1), whole("Second response", 2)];

function continued(requests) {
  assert(requests.length >= 2);
  const { input } = requests[1].json;
  const before = input.find((entry) => entry.role === "assistant");
  assert.equal(before.content.find((part) => part.type === "output_text").text, "First response");
  assert.equal(input.at(-1).content[0].text, "second input");
}

async function all(events) {
  const seen = [];
  for await (const event of events) seen.push(event);
  return seen;
}

// -- whole turns

situation("a thread is run", [HI], async (at) => {
  const thread = at.codex().startThread();
  const result = await thread.run("Hello, world!");
  assert.equal(result.items.length, 1);
  const { id, ...item } = result.items[0];
  assert.equal(typeof id, "string");
  assert.deepEqual(item, { type: "agent_message", text: "Hi!" });
  assert.deepEqual(result.usage, {
    cache_write_input_tokens: 0,
    cached_input_tokens: 12,
    input_tokens: 42,
    output_tokens: 5,
    reasoning_output_tokens: 0,
  });
  assert.equal(typeof thread.id, "string");
});
situation("a thread is run twice", TWO, async (at) => {
  const thread = at.codex().startThread();
  await thread.run("first input");
  await thread.run("second input");
  continued(at.requests);
});
situation("a thread is resumed by its id", TWO, async (at) => {
  const codex = at.codex();
  const first = codex.startThread();
  await first.run("first input");
  const again = codex.resumeThread(first.id);
  const result = await again.run("second input");
  assert.equal(again.id, first.id);
  assert.equal(result.finalResponse, "Second response");
  continued(at.requests);
});
situation("a stream shows these events and no others", [HI], async (at) => {
  const thread = at.codex().startThread();
  const seen = await all((await thread.runStreamed("Hello, world!")).events);
  assert.deepEqual(seen, [
    { type: "thread.started", thread_id: thread.id },
    { type: "turn.started" },
    { type: "item.completed", item: { id: "item_0", type: "agent_message", text: "Hi!" } },
    {
      type: "turn.completed",
      usage: {
        input_tokens: 42,
        cached_input_tokens: 12,
        cache_write_input_tokens: 0,
        output_tokens: 5,
        reasoning_output_tokens: 0,
      },
    },
  ]);
});
situation("a stream runs twice", TWO, async (at) => {
  const thread = at.codex().startThread();
  await all((await thread.runStreamed("first input")).events);
  await all((await thread.runStreamed("second input")).events);
  continued(at.requests);
});
situation("a stream resumes a thread", TWO, async (at) => {
  const codex = at.codex();
  const first = codex.startThread();
  await all((await first.runStreamed("first input")).events);
  const again = codex.resumeThread(first.id);
  await all((await again.runStreamed("second input")).events);
  assert.equal(again.id, first.id);
  continued(at.requests);
});

// -- options

const options = (name, given, check, text = name) =>
  situation(name, [whole(text)], async (at) => {
    const result = await at.codex().startThread(given).run(text);
    assert.equal(result.finalResponse, text);
    check(at);
  });

options("model and sandbox", { model: "gpt-test-1", sandboxMode: "workspace-write" }, (at) => {
  assert.equal(at.requests[0].json.model, "gpt-test-1");
  at.has("--sandbox", "workspace-write");
  at.has("--model", "gpt-test-1");
});
options("reasoning effort", { modelReasoningEffort: "high" }, (at) => {
  at.has("--config", 'model_reasoning_effort="high"');
});
options("network", { networkAccessEnabled: true }, (at) => at.has("--config", "sandbox_workspace_write.network_access=true"));
options("web search", { webSearchEnabled: true }, (at) => at.has("--config", 'web_search="live"'));
options("cached web search", { webSearchMode: "cached" }, (at) => at.has("--config", 'web_search="cached"'));
options("no web search", { webSearchEnabled: false }, (at) => at.has("--config", 'web_search="disabled"'));
options("approval policy", { approvalPolicy: "on-request" }, (at) => at.has("--config", 'approval_policy="on-request"'));
options("folders that are not there", { additionalDirectories: ["../backend", "/tmp/shared"] }, (at) => {
  assert.deepEqual(at.values("--add-dir"), ["../backend", "/tmp/shared"]);
});

situation("configuration of every kind", [whole("Config overrides applied")], async (at) => {
  const config = {
    approval_policy: "never",
    sandbox_workspace_write: { network_access: true },
    retry_budget: 3,
    tool_rules: { allow: ["git status", "git diff"] },
  };
  await at.codex({ apiKey: "test", config }).startThread().run("apply config overrides");
  at.has("--config", "sandbox_workspace_write.network_access=true");
  at.has("--config", "retry_budget=3");
  at.has("--config", 'tool_rules.allow=["git status", "git diff"]');
});
situation("a thread's option after the configuration's", [whole("Thread overrides applied")], async (at) => {
  const thread = at.codex({ config: { approval_policy: "never" } }).startThread({ approvalPolicy: "on-request" });
  await thread.run("override approval policy");
  const policies = at.values("--config").filter((each) => each.startsWith("approval_policy="));
  assert.deepEqual(policies, ['approval_policy="never"', 'approval_policy="on-request"']);
});

// -- schema, parts, images, folders

const SCHEMA = { type: "object", properties: { answer: { type: "string" } }, required: ["answer"], additionalProperties: false };
const asked = (at) => {
  assert.deepEqual(at.requests[0].json.text.format, { name: "codex_output_schema", type: "json_schema", strict: true, schema: SCHEMA });
  assert.equal(existsSync(at.values("--output-schema")[0]), false);
};
// the model's answer is no JSON, and it has no second one: codex asks for none
situation("a schema", [whole("Structured response")], async (at) => {
  const result = await at.codex().startThread().run("structured", { outputSchema: SCHEMA });
  assert.equal(result.finalResponse, "Structured response");
  asked(at);
});
situation("a schema of a stream", [whole("Structured response")], async (at) => {
  await all((await at.codex().startThread().runStreamed("structured", { outputSchema: SCHEMA })).events);
  asked(at);
});
situation("parts of text", [whole("Combined input applied")], async (at) => {
  const parts = ["Describe file changes", "Focus on impacted tests"].map((text) => ({ type: "text", text }));
  await at.codex().startThread().run(parts);
  assert.equal(at.requests[0].json.input.at(-1).content[0].text, "Describe file changes\n\nFocus on impacted tests");
});
situation("files that are no images", [whole("Images applied")], async (at) => {
  const paths = ["first.png", "second.jpg"].map((name) => join(at.home, name));
  for (const [number, path] of paths.entries()) writeFileSync(path, `image-${number}`);
  const images = paths.map((path) => ({ type: "local_image", path }));
  await at.codex().startThread().run([{ type: "text", text: "describe the images" }, ...images]);
  assert.deepEqual(at.values("--image"), paths);
});
situation("images of a thread that is resumed", TWO, async (at) => {
  const path = join(at.home, "img.png");
  writeFileSync(path, Buffer.from(task.png, "base64"));
  const codex = at.codex();
  const first = codex.startThread();
  await first.run("first input");
  const words = [{ type: "text", text: "second input" }, { type: "local_image", path }];
  const result = await codex.resumeThread(first.id).run(words);
  assert.equal(result.finalResponse, "Second response");
  const [program] = at.argv.slice(1);
  assert(program.indexOf("resume") < program.indexOf("--image"));
});
situation("a working folder", [whole("Working directory applied")], async (at) => {
  const workingDirectory = join(at.home, "elsewhere");
  mkdirSync(workingDirectory);
  await at.codex().startThread({ workingDirectory, skipGitRepoCheck: true }).run("use custom working directory");
  at.has("--cd", workingDirectory);
});
situation("a working folder outside a repository", [], async (at) => {
  const workingDirectory = join(at.home, "elsewhere");
  mkdirSync(workingDirectory);
  const thread = at.codex().startThread({ workingDirectory });
  await assert.rejects(thread.run("use custom working directory"), /Not inside a trusted directory/);
});
situation("the header that names the package", [HI], async (at) => {
  await at.codex().startThread().run("Hello, originator!");
  assert.equal(at.requests[0].headers.originator, "codex_sdk_ts");
});
situation(
  "a provider that fails each time",
  (number) => (number === 1 ? [begun("response_1")] : [limited]),
  async (at) => {
    const began = Date.now();
    await assert.rejects(at.codex().startThread().run("fail"), /stream disconnected before completion:/);
    assert(Date.now() - began < 10_000 * task.patience);
  },
);

// -- aborting

const for_ever = (number) => [begun(), echo(number), over()];
const aborted = () => {
  const stop = new AbortController();
  stop.abort("Test abort");
  return { signal: stop.signal };
};
situation("aborted before it begins", for_ever, async (at) => {
  await assert.rejects(at.codex().startThread().run("Hello, world!", aborted()));
});
situation("a stream that is aborted before it begins", for_ever, async (at) => {
  const { events } = await at.codex().startThread().runStreamed("Hello, world!", aborted());
  const seen = [];
  await assert.rejects(async () => {
    for await (const event of events) seen.push(event);
  });
  assert.deepEqual(seen, []);
});
situation("aborted at once", for_ever, async (at) => {
  const stop = new AbortController();
  const running = at.codex().startThread().run("Hello, world!", { signal: stop.signal });
  setTimeout(() => stop.abort("Aborted during execution"), 10);
  await assert.rejects(running);
});
situation("aborted at its first event", for_ever, async (at) => {
  const stop = new AbortController();
  const { events } = await at.codex().startThread().runStreamed("Hello, world!", { signal: stop.signal });
  await assert.rejects(async () => {
    for await (const _ of events) stop.abort("Aborted during iteration");
  });
});
situation("not aborted", [HI], async (at) => {
  const result = await at.codex().startThread().run("Hello, world!", { signal: new AbortController().signal });
  assert.equal(result.finalResponse, "Hi!");
  assert.equal(result.items.length, 1);
});

// -- all of them

const outcomes = {};
for (const [name, { answers, play }] of Object.entries(situations)) {
  const model = await modelOf(answers);
  try {
    await play(new Situation(name, model));
    outcomes[name] = null;
  } catch (error) {
    outcomes[name] = String(error.stack ?? error);
  } finally {
    await model.close();
  }
}
console.log(JSON.stringify(outcomes));
