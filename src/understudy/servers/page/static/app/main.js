// Starts the page.

import { html, render } from "./preact.js";
import { ConversationList } from "./state/list.js";
import { App } from "./ui/app.js";

const list = new ConversationList();
list.start();
const root = document.getElementById("page");
root.replaceChildren();
render(html`<${App} list=${list} />`, root);
