/** Requests and streams, for the generated client. */

export interface Options {
  /** Where `understudy serve` is, such as http://127.0.0.1:8722. */
  url: string;
  /** A token of `understudy token add`; none in a browser that is logged in. */
  token?: string | undefined;
  fetch?: typeof fetch;
}

export class UnderstudyError extends Error {
  constructor(
    message: string,
    /** For programs: `not_found`, `budget_spent` and the like. */
    readonly code: string,
    /** Of HTTP; 0 where no answer came. */
    readonly status: number,
    readonly details: Readonly<Record<string, unknown>> = {},
  ) {
    super(message);
    this.name = "UnderstudyError";
  }
}

export type Query = Readonly<Record<string, string | number | boolean | null | undefined>>;

export interface Call {
  query?: Query | undefined;
  body?: unknown;
  accept?: string;
  signal?: AbortSignal | undefined;
  lastEventId?: string | undefined;
}

const TRIES = 8;
const FIRST_PAUSE = 200;

export class Transport {
  readonly #options: Options;
  readonly #fetch: typeof fetch;

  constructor(options: Options) {
    this.#options = options;
    this.#fetch = options.fetch ?? ((...given) => fetch(...given));
  }

  async json<T>(method: string, path: string, call: Call = {}): Promise<T> {
    return (await (await this.request(method, path, call)).json()) as T;
  }

  async text(method: string, path: string, call: Call = {}): Promise<string> {
    return await (await this.request(method, path, call)).text();
  }

  async bytes(method: string, path: string, call: Call = {}): Promise<Uint8Array> {
    return new Uint8Array(await (await this.request(method, path, call)).arrayBuffer());
  }

  async request(method: string, path: string, call: Call): Promise<Response> {
    const headers: Record<string, string> = { accept: call.accept ?? "application/json" };
    if (this.#options.token !== undefined) headers["authorization"] = `Bearer ${this.#options.token}`;
    if (call.lastEventId !== undefined) headers["last-event-id"] = call.lastEventId;
    const init: RequestInit = { method, headers };
    if (call.body !== undefined) {
      headers["content-type"] = "application/json";
      init.body = JSON.stringify(call.body);
    }
    if (call.signal !== undefined) init.signal = call.signal;
    const url = this.#options.url.replace(/\/+$/, "") + path + written(call.query);
    let response: Response;
    try {
      response = await this.#fetch(url, init);
    } catch (error) {
      if (call.signal?.aborted) throw error;
      throw new UnderstudyError(`cannot ask ${this.#options.url}: ${String(error)}`, "unreachable", 0);
    }
    if (!response.ok) throw await problem(response);
    return response;
  }

  /** Events of a stream, as long as it is listened to: one that was cut is asked for again from where it was. */
  async *stream<T>(path: string, call: Call = {}): AsyncGenerator<T, void, undefined> {
    const ended = new AbortController();
    const signal = call.signal === undefined ? ended.signal : AbortSignal.any([call.signal, ended.signal]);
    let lastEventId: string | undefined;
    let tries = 0;
    try {
      for (;;) {
        try {
          const response = await this.request("GET", path, { ...call, accept: "text/event-stream", lastEventId, signal });
          for await (const event of events(response)) {
            lastEventId = event.id ?? lastEventId;
            tries = 0;
            yield JSON.parse(event.data) as T;
          }
        } catch (error) {
          if (signal.aborted) return;
          if (error instanceof UnderstudyError && error.status >= 400 && error.status !== 429 && error.status !== 503) throw error;
          if (tries >= TRIES) throw error;
        }
        await new Promise((done) => setTimeout(done, FIRST_PAUSE * 2 ** tries));
        tries += 1;
      }
    } finally {
      ended.abort();
    }
  }
}

function written(query: Query = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null);
  return given.length === 0 ? "" : `?${new URLSearchParams(given.map(([name, value]): [string, string] => [name, String(value)]))}`;
}

async function problem(response: Response): Promise<UnderstudyError> {
  const text = await response.text();
  try {
    const { code, message, ...details } = (JSON.parse(text) as { error: { code: string; message: string } }).error;
    return new UnderstudyError(message, code, response.status, details);
  } catch {
    return new UnderstudyError(`status ${response.status}: ${text.slice(0, 200)}`, "bad_answer", response.status);
  }
}

interface ServerEvent {
  id: string | undefined;
  data: string;
}

async function* events(response: Response): AsyncGenerator<ServerEvent, void, undefined> {
  if (response.body === null) return;
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const frames = (rest + decoder.decode(value, { stream: true })).split(/\r\n\r\n|\n\n/);
    rest = frames.pop() ?? "";
    for (const frame of frames) {
      let id: string | undefined;
      const data: string[] = [];
      for (const line of frame.split(/\r?\n/)) {
        if (line.startsWith("id:")) id = line.slice(3).trimStart();
        if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
      }
      if (data.length > 0 && data.join("").trim() !== "") yield { id, data: data.join("\n") };
    }
  }
}
