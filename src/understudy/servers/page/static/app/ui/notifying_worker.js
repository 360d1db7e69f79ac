// Notifications by way of the service worker, where the browser shows no others. The title of the tab has to do where there is no worker either.

import { get, post } from "../net/api.js";
import { go } from "./route.js";

const workers = navigator.serviceWorker; // there is none where the address is not a secure one
let registered = null;
let address = null;

export async function notifyByWorker(title, options) {
  if (!workers) return;
  try {
    registered ??= register();
    await (await registered).showNotification(title, options);
  } catch {
    registered = null; // perhaps the next time
  }
}

/** Be told of questions by way of the browser's push service, where the server offers it: also when no page is open. */
export async function followFromAfar() {
  if (!workers || !("PushManager" in globalThis)) return;
  try {
    const { key } = await get("push");
    if (!key) return;
    registered ??= register();
    const { pushManager } = await registered;
    const asked = { userVisibleOnly: true, applicationServerKey: key };
    const subscription = await pushManager.subscribe(asked).catch(() => subscribeAnew(pushManager, asked));
    const { endpoint, keys } = subscription.toJSON();
    await post("push", { endpoint, keys });
  } catch {
    registered = null; // not offered here, or not now: an open page tells all the same
  }
}

/** The server has another key than the one that the browser knows. */
async function subscribeAnew(pushManager, asked) {
  await (await pushManager.getSubscription())?.unsubscribe();
  return pushManager.subscribe(asked);
}

async function register() {
  address ??= workerAddress();
  await workers.register(address, { scope: "./" });
  return workers.ready;
}

/** The one script address that the page ever makes, which the browser wants to be vouched for. */
function workerAddress() {
  const plain = new URL("page/sw.js", document.baseURI).href;
  return globalThis.trustedTypes?.createPolicy("understudy", { createScriptURL: () => plain }).createScriptURL("") ?? plain;
}

workers?.addEventListener("message", ({ data }) => {
  if (typeof data?.place === "string" && data.place.startsWith("#/c/")) go(data.place);
});
