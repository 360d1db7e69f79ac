// Follows a stream of events for as long as somebody wants it: after a lost connection, a sleep or a restart of the server it
// goes on exactly behind the last event that arrived.

import { EventReader } from "./sse.js";

const FIRST_PAUSE = 400;
const LONGEST_PAUSE = 8000;
const SILENCE = 45_000; // the server says something more often than this; longer silence is a dead connection

/**
 * @param {() => string} url asked for anew before each attempt
 * @param {{
 *   lastId?: string|null,
 *   onEvent: (data: any, id: string|null, event: string) => void,
 *   onState?: (state: "live"|"connecting"|"signed-out"|"gone", attempt: number) => void,
 * }} options
 * @returns {() => void} ends it
 */
export function follow(url, { lastId = null, onEvent, onState = () => {} }) {
  let over = false;
  let attempt = 0;
  let heard = Date.now();
  let controller = new AbortController();
  let wake = () => {};

  async function once() {
    controller = new AbortController();
    const headers = { Accept: "text/event-stream" };
    if (lastId) headers["Last-Event-ID"] = lastId;
    const response = await fetch(url(), { headers, credentials: "same-origin", cache: "no-store", signal: controller.signal });
    if (response.status === 401) return "signed-out";
    if (response.status === 404 || response.status === 410) return "gone";
    if (!response.ok || !response.body) throw new Error(`status ${response.status}`);
    heard = Date.now();
    attempt = 0;
    onState("live", 0);
    await readAll(response.body);
    return null;
  }

  async function readAll(body) {
    const reader = body.getReader();
    const decoder = new TextDecoder();
    const events = new EventReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done || over) return;
      heard = Date.now();
      for (const sent of events.feed(decoder.decode(value, { stream: true }))) {
        if (sent.id !== null) lastId = sent.id;
        onEvent(JSON.parse(sent.data), sent.id, sent.event);
      }
    }
  }

  async function run() {
    while (!over) {
      let end = null;
      try {
        end = await once();
      } catch {
        // Unreachable, cut off, or aborted by us because it had gone silent: all of these are tried again.
      }
      if (over) return;
      attempt += 1;
      onState(end ?? "connecting", attempt);
      if (end === "gone") return;
      await pause(end === "signed-out" ? LONGEST_PAUSE : Math.min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** Math.min(attempt - 1, 6)));
    }
  }

  const pause = (time) => new Promise((resolve) => {
    const timer = setTimeout(resolve, time * (0.7 + Math.random() * 0.6)); // spread, so that tabs do not come back all at once
    wake = () => {
      clearTimeout(timer);
      resolve();
    };
  });

  /** Back from sleep or from another network: do not wait for a connection that may be dead. */
  function hurry() {
    if (document.visibilityState === "hidden") return;
    if (Date.now() - heard > SILENCE / 2) controller.abort();
    wake();
  }

  const watch = setInterval(() => {
    if (Date.now() - heard > SILENCE) {
      heard = Date.now();
      controller.abort();
    }
  }, 5000);
  addEventListener("online", hurry);
  addEventListener("pageshow", hurry);
  document.addEventListener("visibilitychange", hurry);
  run();

  return () => {
    over = true;
    clearInterval(watch);
    removeEventListener("online", hurry);
    removeEventListener("pageshow", hurry);
    document.removeEventListener("visibilitychange", hurry);
    controller.abort();
    wake();
  };
}
