// Questions of the page itself: a confirmation, a line of text, the list of keys. Native dialogs keep the focus and close with Escape.

import { html, useEffect, useRef, useState } from "../preact.js";
import { Observed, useObserved } from "../state/observed.js";
import { shown } from "../text/visible.js";

class Dialogs extends Observed {
  constructor() {
    super();
    this.open = null;
  }

  show(dialog) {
    return new Promise((resolve) => {
      this.open?.resolve(null);
      this.open = { ...dialog, resolve };
      this.changed();
    });
  }

  close(value) {
    const open = this.open;
    this.open = null;
    this.changed();
    open?.resolve(value);
  }
}

const dialogs = new Dialogs();

export const isDialogOpen = () => dialogs.open !== null;

/** @returns {Promise<boolean>} */
export const confirm = async (title, text, yes) => (await dialogs.show({ kind: "confirm", title, text, yes })) === true;

/** @returns {Promise<string|null>} null if it was dismissed */
export const askText = (title, label, value = "", yes = "Save") => dialogs.show({ kind: "text", title, label, value, yes });

export const showHelp = (sections) => dialogs.show({ kind: "help", title: "Keys", sections });

export function DialogHost() {
  useObserved(dialogs);
  return dialogs.open && html`<${Dialog} key=${dialogs.open.title} dialog=${dialogs.open} />`;
}

function Dialog({ dialog }) {
  const element = useRef(null);
  useEffect(() => {
    const before = document.activeElement;
    element.current.showModal();
    return () => before instanceof HTMLElement && before.isConnected && before.focus();
  }, []);
  const cancelled = (event) => {
    event.preventDefault();
    dialogs.close(null);
  };
  const body = { confirm: Confirmation, text: Line, help: Help }[dialog.kind];
  return html`
    <dialog ref=${element} class="dialog" aria-labelledby="dialog-title" onCancel=${cancelled}
      onClick=${(event) => event.target === element.current && dialogs.close(null)}>
      <h2 id="dialog-title">${dialog.title}</h2>
      <${body} ...${dialog} />
    </dialog>`;
}

function Confirmation({ text, yes }) {
  return html`
    <p>${shown(text)}</p>
    <div class="buttons">
      <button type="button" class="button" onClick=${() => dialogs.close(null)}>Cancel</button>
      <button type="button" class="button danger" onClick=${() => dialogs.close(true)}>${yes}</button>
    </div>`;
}

function Line({ label, value, yes }) {
  const [text, setText] = useState(value);
  const submit = (event) => {
    event.preventDefault();
    dialogs.close(text.trim());
  };
  return html`
    <form onSubmit=${submit}>
      <label class="field"><span>${label}</span>
        <input type="text" value=${text} maxlength="200" autofocus onInput=${(event) => setText(event.target.value)} />
      </label>
      <div class="buttons">
        <button type="button" class="button" onClick=${() => dialogs.close(null)}>Cancel</button>
        <button type="submit" class="button primary" disabled=${!text.trim()}>${yes}</button>
      </div>
    </form>`;
}

function Help({ sections }) {
  return html`
    <div class="help-box" tabindex="0" role="region" aria-label="All keys"><div class="help">
      ${sections.map(({ title, keys }) => html`
        <section key=${title}>
          <h3>${title}</h3>
          <dl>${keys.map(([name, what]) => html`<div key=${name}><dt>${name.split(" ").map((key) => html`<kbd key=${key}>${key}</kbd> `)}</dt><dd>${what}</dd></div>`)}</dl>
        </section>`)}
    </div></div>
    <div class="buttons"><button type="button" class="button" autofocus onClick=${() => dialogs.close(null)}>Close</button></div>`;
}
