// Questions before something is changed. Each change is confirmed, then said.

import { h, fill } from "./dom.js";

/** Ask; return the form's values, or null if the user declines. */
export function ask({ title, text, fields = [], yes, danger = false }) {
  const dialog = document.getElementById("dialog");
  return new Promise((resolve) => {
    const form = h("form", { method: "dialog" },
      h("h2", { id: "dialog-title" }, title), text ? h("p", {}, text) : null,
      h("div", { class: "form" }, fields),
      h("div", { class: "buttons" },
        h("button", { type: "button", onclick: () => dialog.close("") }, "Not now"),
        h("button", { type: "submit", class: danger ? "danger" : "primary", value: "yes" }, yes)));
    form.addEventListener("submit", () => { dialog.returnValue = "yes"; });
    fill(dialog, form);
    dialog.setAttribute("aria-labelledby", "dialog-title");
    dialog.returnValue = "";
    dialog.onclose = () => resolve(dialog.returnValue === "yes" ? Object.fromEntries(new FormData(form)) : null);
    dialog.showModal();
  });
}
