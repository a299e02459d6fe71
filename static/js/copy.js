// Buttons that copy: data-copy names the element whose text it is.

const SAID_FOR = 1500; // ms

export async function copy(text) {
  // Browsers offer the clipboard to https and localhost only; a box on the LAN has neither.
  if (navigator.clipboard) {
    return navigator.clipboard.writeText(text).then(() => true, () => false);
  }
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "visually-hidden";
  document.body.append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  return copied;
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-copy]");
  if (!button) return;
  const label = button.textContent;
  button.textContent = (await copy(document.querySelector(button.dataset.copy).textContent)) ? "Copied" : "Not copied";
  document.getElementById("announcements").textContent = button.textContent;
  setTimeout(() => (button.textContent = label), SAID_FOR);
});
