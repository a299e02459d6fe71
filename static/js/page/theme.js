// @ts-check
// What a person chose in this browser: the theme, whether the sidebar shows names, how servers are shown.
// Runs before the first paint, so it is no module.
(() => {
  const KEY = "inferdash.theme";
  const root = document.documentElement;
  /** @param {string} theme */
  const apply = (theme) => {
    if (theme === "light" || theme === "dark") root.dataset.theme = theme;
    else delete root.dataset.theme;
  };
  let chosen = "system";
  try {
    chosen = localStorage.getItem(KEY) ?? "system";
  } catch {
    // Storage is switched off in this browser: the switch then lasts for one page.
  }
  apply(chosen);
  document.addEventListener("DOMContentLoaded", () => {
    /** @type {NodeListOf<HTMLInputElement>} */
    const inputs = document.querySelectorAll("input[name=theme]");
    for (const input of inputs) {
      input.checked = input.value === chosen;
      input.addEventListener("change", () => {
        apply(input.value);
        // The menu's, and those on a page of settings.
        for (const other of inputs) other.checked = other.value === input.value;
        document.dispatchEvent(new Event("themechange"));
        try {
          localStorage.setItem(KEY, input.value);
        } catch {
          // See above.
        }
      });
    }
  });
  // Without a choice, a narrow window has a narrow sidebar.
  const tight = matchMedia("(max-width: 64rem)");
  const fold = () => {
    /** @type {string | null} */
    let kept = null;
    try {
      kept = localStorage.getItem("inferdash.sidebar");
    } catch {
      // See above.
    }
    root.dataset.sidebar = kept ?? (tight.matches ? "narrow" : "wide");
  };
  fold();
  try {
    const view = localStorage.getItem("inferdash.servers");
    if (view) root.dataset.servers = view;
  } catch {
    // See above.
  }
  tight.addEventListener("change", fold);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () =>
    document.dispatchEvent(new Event("themechange")),
  );
})();
