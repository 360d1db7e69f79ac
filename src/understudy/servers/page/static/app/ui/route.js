// Which part of the page is shown is in the fragment of the address: links can be kept, and the back button works.

import { useEffect, useState } from "../preact.js";

/** @typedef {{view: "list"|"new"|"conversation"|"changes", id: string|null, parameters: URLSearchParams}} Route */

/** @returns {Route} */
export function readRoute(hash = location.hash) {
  const [path, search = ""] = hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").map(decoded);
  const parameters = new URLSearchParams(search);
  if (parts[0] === "new") return { view: "new", id: null, parameters };
  if (parts[0] === "c" && parts[1]) return { view: parts[2] === "changes" ? "changes" : "conversation", id: parts[1], parameters };
  return { view: "list", id: null, parameters };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export const conversationPath = (id, rest = "") => `#/c/${encodeURIComponent(id)}${rest}`;

/** Where to log in, and then come back to what is shown now. */
export const loginPath = () => `login${location.hash}`;

export function go(path) {
  if (location.hash !== path) location.hash = path;
}

export function useRoute() {
  const [route, setRoute] = useState(readRoute());
  useEffect(() => {
    const changed = () => setRoute(readRoute());
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return route;
}
