// Requests to the server's REST interface. The cookie of the login says who asks.

export class ApiError extends Error {
  /** @param {number} status @param {string} code @param {string} message */
  constructor(status, code, message, details = {}) {
    super(message);
    this.status = status;
    this.code = code;
    this.details = details;
  }
}

/** Relative, so that the page also works below a path of a proxy. */
export const conversationUrl = (id, rest = "") => `v1/conversations/${encodeURIComponent(id)}${rest}`;

export function query(parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== "" && value != null && value !== false);
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return text && `?${text}`;
}

export async function request(method, url, body) {
  const options = { method, credentials: "same-origin", cache: "no-store", headers: { Accept: "application/json" } };
  if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let response;
  try {
    response = await fetch(url, options);
  } catch {
    throw new ApiError(0, "unreachable", "The server cannot be reached. The page tries again by itself.");
  }
  return readAnswer(response);
}

async function readAnswer(response) {
  const text = await response.text();
  const isJson = (response.headers.get("Content-Type") ?? "").includes("json");
  let value = text;
  if (isJson && text) {
    try {
      value = JSON.parse(text);
    } catch {
      throw new ApiError(response.status, "bad_answer", "The server's answer could not be read.");
    }
  }
  if (response.ok) return value;
  const error = value?.error ?? {};
  if (response.status === 401) throw new ApiError(401, error.code ?? "failed", "You are not logged in.", error); // the server's words are for programs
  throw new ApiError(response.status, error.code ?? "failed", error.message ?? `The server answered ${response.status}.`, error);
}

export const get = (url) => request("GET", url);
export const post = (url, body = {}) => request("POST", url, body);
export const remove = (url) => request("DELETE", url);
