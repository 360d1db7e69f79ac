// `@openai/codex-sdk` runs threads by a program named `codex`: argv is the task as JSON, and the folder that holds the package.
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [task, folder] = [JSON.parse(process.argv[2]), process.argv[3]];
const { Codex } = await import(pathToFileURL(join(folder, "node_modules/@openai/codex-sdk/dist/index.js")));
const codex = new Codex({
  codexPathOverride: task.codex,
  baseUrl: task.url,
  apiKey: "sk-of-a-test",
  env: task.env,
  config: { model_reasoning_effort: "low", shell_environment_policy: { inherit: "core" } },
});
const options = {
  model: "gpt-5.5",
  sandboxMode: "workspace-write",
  workingDirectory: task.cwd,
  skipGitRepoCheck: true,
  approvalPolicy: "never",
  threadSource: "a-test",
  additionalDirectories: [task.more],
};
const seen = {};

const thread = codex.startThread(options);
const first = await thread.run("first");
seen.first = { answer: first.finalResponse, items: first.items, usage: first.usage };

const image = { type: "local_image", path: task.image };
const second = await thread.run([{ type: "text", text: "second" }, { type: "text", text: "part" }, image, image], { outputSchema: task.schema });
seen.second = second.finalResponse;

const again = codex.resumeThread(thread.id, options);
const { events } = await again.runStreamed([{ type: "text", text: "third" }, image]);
seen.third = [];
for await (const event of events) seen.third.push(event);
seen.ids = [thread.id, again.id];

seen.failure = await again.run("fourth").catch((error) => error.message);

const stop = new AbortController();
const aborted = await codex.startThread({ ...options, sandboxMode: "danger-full-access" }).runStreamed("fifth", { signal: stop.signal });
try {
  for await (const event of aborted.events) if (event.item?.type === "command_execution") stop.abort();
  seen.aborted = "not at all";
} catch (error) {
  seen.aborted = error.name;
}
console.log(JSON.stringify(seen));
