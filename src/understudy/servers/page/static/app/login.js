// Logs the browser in: with the code of a link, which works once, or with a token. The code leaves the address before anything else.

const said = document.getElementById("said");
const form = document.getElementById("with-token");
const code = new URLSearchParams(location.search).get("code");
const place = /^#\/[\w/?=&%.-]*$/.test(location.hash) ? location.hash : ""; // only a place of the page itself
history.replaceState(null, "", `login${place}`);

async function logIn(given) {
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

function offerToken(why) {
  said.textContent = `${why} Run “understudy open” for a new link, or log in with a token.`;
  form.hidden = false;
  document.getElementById("token").focus();
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  logIn({ token: document.getElementById("token").value.trim() });
});

if (code) logIn({ code });
else offerToken("");
