// Keeps relative times true while a page is open.

const UNITS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];

function relative(seconds) {
  const size = Math.abs(seconds);
  if (size < 5) return "just now";
  const [unit, length] = UNITS.find(([, length]) => size >= length);
  const text = `${Math.floor(size / length)} ${unit}`;
  return seconds > 0 ? `${text} ago` : `in ${text}`;
}

function span(seconds) {
  let left = Math.max(0, Math.floor(seconds));
  const parts = [];
  for (const [unit, length] of UNITS) {
    const amount = Math.floor(left / length);
    left %= length;
    if (amount || (unit === "s" && !parts.length)) parts.push(`${amount} ${unit}`);
    else if (parts.length) break;
  }
  return parts.slice(0, 2).join(" ");
}

export function refresh(root = document) {
  for (const element of root.querySelectorAll("time[data-show=ago], time[data-show=since]")) {
    const seconds = (Date.now() - Date.parse(element.dateTime)) / 1000;
    const text = element.dataset.show === "ago" ? relative(seconds) : span(seconds);
    if (element.textContent !== text) element.textContent = text;
  }
}

refresh();
setInterval(refresh, 1000);
