// Notifications by way of the service worker, where the browser shows no others. The title of the tab has to do where there is no worker either.

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
