// Where the person writes: a message that starts a turn, joins the one that runs, or waits for its own.

import { html, useLayoutEffect, useRef, useState } from "../preact.js";
import { conversationUrl, post } from "../net/api.js";
import { attempt, tell } from "../state/notices.js";

const MOST_IMAGES = 8;
const LARGEST_IMAGE = 8 * 1024 * 1024;
const drafts = new Map(); // by conversation, kept while the page is open

export function Composer({ id, isWorking, mayStop, onStop }) {
  const [text, setText] = useState(drafts.get(id) ?? "");
  const [images, setImages] = useState([]);
  const [busy, setBusy] = useState(false);
  const field = useRef(null);
  const write = (value) => {
    drafts.set(id, value);
    setText(value);
  };
  useLayoutEffect(() => fitHeight(field.current), [text]);

  const send = async (mode) => {
    if (busy || (!text.trim() && !images.length)) return;
    setBusy(true);
    const sent = await attempt(() => sendMessage(id, { text, ...(images.length ? { images } : {}) }, mode));
    setBusy(false);
    if (!sent) return;
    const rest = drafts.get(id) ?? "";
    write(rest.startsWith(text) ? rest.slice(text.length).trimStart() : rest); // what was typed meanwhile is the next message
    setImages((now) => now.filter((image) => !images.includes(image)));
    field.current?.focus();
  };
  const usual = isWorking ? "steer" : "send";
  const pressed = (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || matchMedia("(pointer: coarse)").matches) return;
    event.preventDefault();
    send(event.ctrlKey || event.metaKey ? "queue" : usual);
  };
  const add = async (files) => {
    const read = await readImages([...files], images.length);
    if (read.length) setImages((before) => [...before, ...read]);
  };
  const submit = (event) => {
    event.preventDefault();
    send(usual);
  };
  return html`
    <form class="composer" aria-label="Write a message" onSubmit=${submit}>
      ${images.length > 0 && html`<div class="images">${images.map((image, index) => html`
        <button key=${index} type="button" class="attached" aria-label="Remove image ${index + 1}" onClick=${() => setImages(images.filter((_, other) => other !== index))}><img src=${image} alt="" /><span aria-hidden="true">×</span></button>`)}</div>`}
      <div class="composer-row">
        <label class="visually-hidden" for="message">Message</label>
        <textarea id="message" ref=${field} rows="1" value=${text} placeholder=${isWorking ? "Say something while it works" : "Write a message"}
          onInput=${(event) => write(event.target.value)} onKeyDown=${pressed}
          onPaste=${(event) => event.clipboardData?.files.length && add(event.clipboardData.files)}></textarea>
        <label class="icon-button attach" title="Attach images"><span aria-hidden="true">+</span><span class="visually-hidden">Attach images</span>
          <input type="file" class="visually-hidden" accept="image/png,image/jpeg,image/gif,image/webp" multiple onChange=${(event) => add(event.target.files).then(() => { event.target.value = ""; })} />
        </label>
        ${mayStop && html`<button type="button" class="button danger" onClick=${onStop}>Stop</button>`}
        ${isWorking && html`<button type="button" class="button queue" disabled=${busy || (!text.trim() && !images.length)} title="Send it when this turn is over" onClick=${() => send("queue")}>Queue</button>`}
        <button type="submit" class="button primary" disabled=${busy || (!text.trim() && !images.length)}>${isWorking ? "Steer" : "Send"}</button>
      </div>
    </form>`;
}

async function sendMessage(id, message, mode) {
  try {
    return await post(conversationUrl(id, "/messages"), { ...message, mode });
  } catch (error) {
    if (error.code !== "no_turn") throw error;
    return post(conversationUrl(id, "/messages"), { ...message, mode: "send" }); // the turn has just ended: it begins another
  }
}

/** As high as its text, up to what the style sheet allows. */
function fitHeight(field) {
  field.rows = 1;
  const line = Number.parseFloat(getComputedStyle(field).lineHeight) || 22;
  const { paddingTop, paddingBottom } = getComputedStyle(field);
  const text = field.scrollHeight - Number.parseFloat(paddingTop) - Number.parseFloat(paddingBottom);
  field.rows = Math.min(10, Math.max(1, Math.round(text / line)));
}

async function readImages(files, already) {
  const read = [];
  for (const file of files) {
    if (!/^image\/(png|jpeg|gif|webp)$/.test(file.type)) tell("Only PNG, JPEG, GIF and WebP images can be attached.", "bad");
    else if (file.size > LARGEST_IMAGE) tell("This image is larger than 8 MB.", "bad");
    else if (already + read.length >= MOST_IMAGES) tell(`At most ${MOST_IMAGES} images go with a message.`, "bad");
    else read.push(await dataUrl(file));
  }
  return read;
}

const dataUrl = (file) => new Promise((resolve, reject) => {
  const reader = new FileReader();
  reader.onload = () => resolve(reader.result);
  reader.onerror = () => reject(reader.error);
  reader.readAsDataURL(file);
});
