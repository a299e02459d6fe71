// @ts-check
// Buttons of the page of components, which do nothing but show one.

import "./menu.js";
import { show } from "./dialog.js";
import { around, byId } from "./parts.js";
import { complain, toast } from "./toast.js";

document.addEventListener("click", (event) => {
  const button = around(event, "button", HTMLButtonElement);
  if (!button) return;
  const { showToast, showUndo, showTrouble, showDialog } = button.dataset;
  if (showToast) toast(showToast);
  if (showUndo) toast(showUndo, { title: "Undo", run: () => toast("It is back.") });
  if (showTrouble) complain(showTrouble);
  if (button.dataset.tick !== undefined) button.ariaChecked = String(button.ariaChecked !== "true");
  if (showDialog !== undefined) show(byId("d-dialog", HTMLTemplateElement).content.cloneNode(true));
});
