// Logs the browser in: with the code of a link, which works once, or with a token. The code leaves the address before anything else.
//
// On this machine the code is sent by itself. Elsewhere links travel through messages, and what looks at them there (a preview that runs
// scripts, a page that opens them for somebody) must neither use up the link nor log a person in without their knowing: they press a button.

const said = document.getElementById("said");
const byLink = document.getElementById("by-link");
const form = document.getElementById("with-token");
const code = new URLSearchParams(location.search).get("code");
const place = /^#\/[\w/?=&%.-]*$/.test(location.hash) ? location.hash : ""; // only a place of the page itself
history.replaceState(null, "", `login${place}`);

const isThisMachine = /^(?:localhost|.+\.localhost|127(?:\.\d+){3}|\[::1\])$/.test(location.hostname);

async function logIn(given) {
  byLink.hidden = true;
  let response;
  try {
    response = await fetch("login", { method: "POST", credentials: "same-origin", headers: { "Content-Type": "application/json" }, body: JSON.stringify(given) });
  } catch {
    return offerToken("The server cannot be reached.");
  }
  if (response.ok) return location.replace(`./${place}`);
  const answer = await response.json().catch(() => ({}));
  return offerToken(answer.error?.message ?? answer.message ?? `The server answered ${response.status}.`);
}

function offerLink() {
  said.textContent = `This link logs your browser in at ${location.host}. It works once.`;
  byLink.hidden = false;
  byLink.querySelector("button").focus();
}

const WAYS = isThisMachine
  ? "Run “understudy open” in a terminal on this machine for a link that logs you in, or enter a token."
  : "Enter your token. If you have none, ask whoever runs this server: “understudy token add NAME” makes one for you, and “understudy open” a link for themselves.";

function offerToken(why) {
  said.textContent = `${why} ${WAYS}`.trim();
  form.hidden = false;
  document.getElementById("token").focus();
}

byLink.addEventListener("submit", (event) => {
  event.preventDefault();
  logIn({ code });
});
form.addEventListener("submit", (event) => {
  event.preventDefault();
  logIn({ token: document.getElementById("token").value.trim() });
});

if (!code) offerToken("");
else if (isThisMachine && window.top === window) logIn({ code });
else offerLink();
