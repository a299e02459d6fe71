// Says to screen readers what eyes see: a server has become ready, failed or stopped.

const WORDS = { ready: "is ready", failed: "failed", stopped: "has stopped" };

const announcements = document.getElementById("announcements");
new MutationObserver((changes) => {
  for (const { target, oldValue } of changes) {
    const { name, state } = target.dataset;
    if (name && state !== oldValue && WORDS[state]) announcements.textContent = `${name} ${WORDS[state]}`;
  }
}).observe(document.getElementById("main"), {
  subtree: true,
  attributeFilter: ["data-state"],
  attributeOldValue: true,
});
