"""The style and the script of the page of a plan, beside what all pages have (`webpage`).

Apart from the page because it is another language. The script is no more than search, filter and
folding.
"""

STYLE = """\
.against, .why, .after, .origin, .names, .brief, .job { color: var(--soft) }
.against { margin: 0 0 20px }
.refused {
  border: 1px solid var(--gone); background: var(--gone-ground); border-radius: 6px;
  padding: 8px 12px;
}
.turns { border: 1px solid var(--line); border-radius: 8px; overflow: hidden }
.turns > summary { padding: 10px 14px; background: var(--panel) }
.turns ol { display: grid; grid-auto-flow: column; grid-auto-columns: minmax(180px, max-content);
  gap: 16px; align-items: start; list-style: none; margin: 0; padding: 12px 14px;
  border-top: 1px solid var(--line); overflow: auto; max-height: 70vh }
.turns h3 { font-size: 12px; font-weight: 400; color: var(--soft); margin: 0 0 6px }
.box { display: block; border: 1px solid; border-radius: 6px; padding: 5px 10px; margin: 0 0 8px;
  text-decoration: none; white-space: nowrap; background: var(--ground) }
.box b { font-family: var(--mono) }
.box.wait { border-style: dashed }
#controls {
  display: flex; flex-wrap: wrap; gap: 8px; align-items: center; margin: 10px 0;
  position: sticky; top: 0; background: var(--ground); padding: 8px 0; z-index: 1;
}
#search { flex: 1 1 280px; padding: 6px 10px; border: 1px solid var(--line); border-radius: 6px;
  background: var(--ground); color: var(--ink); font: inherit }
.chip, button { border: 1px solid var(--line); border-radius: 6px; padding: 4px 10px;
  background: var(--panel); color: var(--ink); font: inherit; cursor: pointer }
.chip input { margin: 0 6px 0 0; vertical-align: -1px; accent-color: currentColor }
.fold { display: inline-flex; gap: 8px }
#count { color: var(--soft); min-width: 4em }
.step { border: 1px solid var(--line); border-bottom-width: 0 }
.step:last-of-type { border-bottom-width: 1px; border-radius: 0 0 8px 8px }
.step:first-of-type { border-top-left-radius: 8px; border-top-right-radius: 8px }
.step > summary { display: flex; gap: 12px; align-items: baseline; padding: 7px 12px;
  list-style: none }
.step > summary::-webkit-details-marker { display: none }
.step > summary::before { content: "\\25b8"; color: var(--soft); width: 10px; flex: none }
.step[open] > summary::before { content: "\\25be" }
.step > summary:hover, .step[open] > summary { background: var(--panel) }
.number { color: var(--soft); min-width: 2.2em; text-align: right;
  font-variant-numeric: tabular-nums }
.action { min-width: 84px; white-space: nowrap }
.action b { display: inline-block; min-width: 24px; font-family: var(--mono) }
.create { color: var(--new) }
.adopt, .update, .release { color: var(--change) }
.replace { color: var(--remake) }
.delete, .conflict { color: var(--gone) }
.wait { color: var(--soft) }
.object { font-weight: 600; overflow-wrap: anywhere }
.brief { flex: 1; min-width: 0; overflow: hidden; text-overflow: ellipsis; white-space: nowrap }
.step[open] > summary .brief { visibility: hidden }
.job { white-space: nowrap }
.inside { padding: 4px 16px 12px 58px; border-top: 1px solid var(--line) }
.inside p { margin: 8px 0; overflow-wrap: anywhere }
.diff { margin: 8px 0; padding: 8px 0; overflow: auto; max-height: 70vh; background: var(--panel);
  border: 1px solid var(--line); border-radius: 6px; tab-size: 4;
  font: 12px/1.55 var(--mono) }
.diff span { display: block; padding: 0 12px; white-space: pre; min-width: max-content }
.diff .new { background: var(--new-ground); color: var(--new) }
.diff .gone { background: var(--gone-ground); color: var(--gone) }
.diff .cut { color: var(--soft) }
.diff .field { font-weight: 600; margin-top: 6px }
.diff .field:first-child { margin-top: 0 }
.idle { margin-top: 24px }
.idle li { overflow-wrap: anywhere }
@media (max-width: 700px) {
  .brief, .job { display: none }
  .inside { padding-left: 16px }
}
@media print { #controls { display: none } .diff, .scroll { max-height: none } }
"""

SCRIPT = """\
"use strict";
(() => {
  const form = document.getElementById("controls");
  if (!form) return;
  const steps = [...document.querySelectorAll(".step")];
  const search = document.getElementById("search");
  const texts = new Map();
  const textOf = (step) => {
    if (!texts.has(step)) {
      texts.set(step, (step.dataset.names + " " + step.textContent).toLowerCase());
    }
    return texts.get(step);
  };
  const filter = () => {
    const words = search.value.toLowerCase().split(/\\s+/).filter(Boolean);
    const actions = new Set(
      [...form.querySelectorAll("[name=action]:checked")].map((box) => box.value)
    );
    let found = 0;
    for (const step of steps) {
      const shows =
        actions.has(step.dataset.action) && words.every((word) => textOf(step).includes(word));
      step.hidden = !shows;
      found += shows ? 1 : 0;
    }
    document.getElementById("none").hidden = found > 0;
    document.getElementById("count").textContent =
      found === steps.length ? "" : `${found} of ${steps.length}`;
  };
  const fold = (open) => {
    for (const step of steps) if (!step.hidden) step.open = open;
  };
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  document.getElementById("unfold").addEventListener("click", () => fold(true));
  document.getElementById("fold").addEventListener("click", () => fold(false));
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== search) {
      event.preventDefault();
      search.focus();
    }
  });
})();
"""
