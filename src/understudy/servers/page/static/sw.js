// A worker for notifications: on phones, which only show those of workers, and of questions that come while no page is open. It is registered
// where one is needed, and not before.
// It has no `fetch` handler and keeps nothing, so what the page shows is never older than the server, and nothing stays behind after a log-out.

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));
self.addEventListener("push", (event) => event.waitUntil(tell(event.data)));
self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(lead(String(event.notification.data ?? "")));
});

/** That a question waits, unless a person is looking at the page. The message has ids and no words. */
async function tell(data) {
  const windows = await self.clients.matchAll({ type: "window" });
  if (windows.some((client) => client.focused)) return;
  let id = "";
  try {
    id = String(data.json().conversation);
  } catch {
    // a message without ids leads to the list
  }
  const place = /^[0-9a-f-]{36}$/.test(id) ? `#/c/${id}` : "";
  const options = { body: "A conversation asks for your decision", tag: id, icon: "icon-192.png", data: place };
  await self.registration.showNotification("Understudy waits for you", options);
}

/** To the place in the page that a notification is about, in a window that is there already, else in a new one. */
async function lead(place) {
  const page = new URL("../", self.location.href).href;
  const windows = await self.clients.matchAll({ type: "window" });
  const found = windows.find((client) => client.url.split("#")[0] === page);
  if (!found) return self.clients.openWindow(`${page}${place}`);
  found.postMessage({ place });
  return found.focus();
}
