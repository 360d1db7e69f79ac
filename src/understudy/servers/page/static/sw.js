// A worker for one thing: notifications on phones, which only show those of workers. It is registered where one is needed, and not before.
// It has no `fetch` handler and keeps nothing, so what the page shows is never older than the server, and nothing stays behind after a log-out.

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));
self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(lead(String(event.notification.data ?? "")));
});

/** To the place in the page that a notification is about, in a window that is there already, else in a new one. */
async function lead(place) {
  const page = new URL("../", self.location.href).href;
  const windows = await self.clients.matchAll({ type: "window" });
  const found = windows.find((client) => client.url.split("#")[0] === page);
  if (!found) return self.clients.openWindow(`${page}${place}`);
  found.postMessage({ place });
  return found.focus();
}
