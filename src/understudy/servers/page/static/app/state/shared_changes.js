// The stream of changes of the list, shared by all tabs of the page: browsers allow few connections to one server, and every open
// conversation needs one. One tab holds a lock and follows; it passes on to the others what it hears.

import { follow } from "../net/stream.js";

const CHANNEL = "understudy-changes";

/**
 * @param {(row: any) => void} onRow
 * @param {(state: string) => void} onState
 */
export function followChanges(onRow, onState) {
  if (!navigator.locks || typeof BroadcastChannel === "undefined") { // not offered on plain http from another machine
    start(onRow, onState);
    return;
  }
  const channel = new BroadcastChannel(CHANNEL);
  let state = "connecting";
  let leads = false;
  channel.onmessage = ({ data }) => {
    if (data.hello) {
      if (leads) channel.postMessage({ state });
    } else if (data.row) onRow(data.row);
    else if (data.state) onState(data.state);
  };
  channel.postMessage({ hello: true });

  const lead = () => new Promise((release) => {
    leads = true;
    const stop = start(
      (row) => {
        onRow(row);
        channel.postMessage({ row });
      },
      (now) => {
        state = now;
        onState(now);
        channel.postMessage({ state });
      },
    );
    // A hidden tab may be frozen by the browser at any moment: it lets another one lead, and else goes on.
    document.addEventListener("visibilitychange", function hidden() {
      if (document.visibilityState !== "hidden") return;
      document.removeEventListener("visibilitychange", hidden);
      leads = false;
      stop();
      release();
      queue();
    });
  });
  const queue = () => navigator.locks.request(CHANNEL, lead);
  queue();
}

const start = (onRow, onState) => follow(() => "v1/changes", { onEvent: onRow, onState });
