// Starts the page.

import { html, render } from "./preact.js";
import { ConversationList } from "./state/list.js";
import { App } from "./ui/app.js";
import { loginPath } from "./ui/route.js";

const list = new ConversationList();
const isLoaded = list.start();
const root = document.getElementById("page");
root.replaceChildren();
render(html`<${App} list=${list} />`, root);

// Whoever comes without a login has nothing to lose here yet. One that ends later only says so: something may be half written.
await isLoaded;
if (list.failure?.status === 401) location.replace(loginPath());
