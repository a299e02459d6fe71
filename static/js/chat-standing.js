// Where the chosen server is and what it does: the socket sends that of all, one is shown.

export class Standing {
  constructor({ root, servers }) {
    Object.assign(this, { root, servers });
    servers.addEventListener("change", () => this.show());
    new MutationObserver(() => this.show()).observe(root, { subtree: true, childList: true, attributeFilter: ["hidden"] });
    this.show();
  }

  show() {
    for (const each of this.root.querySelectorAll("[data-standing]")) {
      const hidden = each.dataset.standing !== this.servers.wanted;
      if (each.hidden !== hidden) each.hidden = hidden;
    }
  }
}
