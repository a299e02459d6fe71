// @ts-check
// Where the chosen server is and what it does: the socket sends that of all, one is shown.

import { all } from "../../page/parts.js";

export class Standing {
  /** @param {{root: HTMLElement, servers: Chat.Choice}} parts */
  constructor({ root, servers }) {
    this.root = root;
    this.servers = servers;
    servers.addEventListener("change", () => this.show());
    new MutationObserver(() => this.show()).observe(root, { subtree: true, childList: true, attributeFilter: ["hidden"] });
    this.show();
  }

  show() {
    for (const each of all(this.root, "[data-standing]", HTMLElement)) {
      const hidden = each.dataset.standing !== this.servers.wanted;
      if (each.hidden !== hidden) each.hidden = hidden;
    }
  }
}
