// What the model wants to know of the person: for each question its choices, and a field for other words.

import { html, useState } from "../preact.js";
import { shown } from "../text/visible.js";

export function InputForm({ question, busy, onAnswer }) {
  const [chosen, setChosen] = useState({});
  const [words, setWords] = useState({});
  const answers = Object.fromEntries(question.questions.map(({ id }) => [id, (words[id] ?? "").trim() || chosen[id] || ""]).filter(([, answer]) => answer));
  const submit = (event) => {
    event.preventDefault();
    if (!busy && Object.keys(answers).length) onAnswer(answers);
  };
  return html`
    <form class="input-form" onSubmit=${submit}>
      ${question.questions.map((each) => html`<${Asked} key=${each.id} asked=${each} name=${`${question.call_id} ${question.mark} ${each.id}`} chosen=${chosen[each.id]} words=${words[each.id] ?? ""} choose=${(label) => setChosen({ ...chosen, [each.id]: label })} say=${(text) => setWords({ ...words, [each.id]: text })} />`)}
      <div class="buttons answers"><button type="submit" class="button primary" disabled=${busy || !Object.keys(answers).length}>Answer</button></div>
    </form>`;
}

function Asked({ asked, name, chosen, words, choose, say }) {
  return html`
    <fieldset class="wanted">
      <legend>${shown(asked.header)}</legend>
      <p>${shown(asked.question)}</p>
      ${(asked.options ?? []).map((option) => html`
        <label class="option"><input type="radio" name=${name} checked=${chosen === option.label && !words} onChange=${() => choose(option.label)} /> <span>${shown(option.label)}</span>${option.description && html` <span class="quiet">${shown(option.description)}</span>`}</label>`)}
      <label class="field"><span>${asked.options?.length ? "Something else" : "Your answer"}</span>
        <input type="text" maxlength="10000" value=${words} onInput=${(event) => say(event.target.value)} />
      </label>
    </fieldset>`;
}
