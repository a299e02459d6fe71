// The menus above a conversation: sharing it by a link, having it as a file, and where it is compared.

import { button, element } from "./chat-dom.js";
import { FORMS, TOGETHER, download, downloadTogether } from "./chat-export.js";
import { copy } from "./copy.js";

// `current` gives the open conversation, `asked` what the page would send now, `columns` those of a
// comparison, of which the open one is the first.
export class Menus {
  constructor({ share, files, compare = null, store, current, asked, columns = null, say }) {
    Object.assign(this, { share, files, compare, store, current, asked, columns, say });
    for (const menu of [share, files]) this.fold(menu);
    share.addEventListener("toggle", () => share.open && this.drawShare());
    const forms = Object.entries(FORMS).map(([form, { title }]) => this.form(columns ? `Column A: ${title}` : title, () => download(current(), form, asked())));
    const together = Object.entries(columns ? TOGETHER : {}).map(([form, { title }]) => this.form(title, () => downloadTogether(current(), columns(), form)));
    files.querySelector(".drop-panel").append(...together, ...forms);
  }

  form(title, have) {
    return button(title, "", () => {
      have();
      this.files.open = false;
    });
  }

  // A menu goes as menus do: by Escape, or a click elsewhere.
  fold(menu) {
    document.addEventListener("click", (event) => {
      if (!menu.contains(event.target)) menu.open = false;
    });
    menu.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !menu.open) return;
      event.preventDefault();
      menu.open = false;
      menu.querySelector("summary").focus();
    });
  }

  // Only what was said can be shared or had.
  refresh() {
    const hasNothing = !this.current().messages.length;
    for (const menu of [this.share, this.files]) {
      menu.hidden = hasNothing;
      if (hasNothing) menu.open = false;
    }
    this.share.querySelector("summary").textContent = this.current().shared ? "Shared" : "Share";
    if (this.compare) this.compare.search = hasNothing ? "" : new URLSearchParams({ from: this.current().id });
  }

  drawShare() {
    const conversation = this.current();
    const panel = this.share.querySelector(".drop-panel");
    if (!conversation.shared) {
      panel.replaceChildren(
        element("p", "", "Whoever may log in here and has the link can read this conversation, also what is said in it from now on."),
        button("Make a link", "", () => this.act("share")),
      );
      return;
    }
    const link = Object.assign(document.createElement("input"), { readOnly: true, value: new URL(conversation.shared, location.href).href });
    link.setAttribute("aria-label", "Link to this conversation");
    const copied = button("Copy", "Copy the link", async () => {
      copied.textContent = (await copy(link.value)) ? "Copied" : "Not copied";
    });
    panel.replaceChildren(
      element("p", "", "Whoever may log in here can read it by this link."),
      element("p", "drop-row", link, copied),
      button("Share no more", "", () => this.act("unshare")),
    );
    link.select();
  }

  async act(verb) {
    const conversation = this.current();
    try {
      const answer = await this.store.ask(`${conversation.id}/${verb}/`, { method: "POST" });
      conversation.shared = answer?.link ?? "";
    } catch (error) {
      this.say(error.message);
    }
    this.refresh();
    this.drawShare();
  }
}
