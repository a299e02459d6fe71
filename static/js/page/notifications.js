// @ts-check
// Notifications of the browser: one tab listens for all tabs of this browser, in the background too, and
// shows what is news. They are turned on in Settings, by a press.

const ON = "inferdash.notifications";
const SHOWN = "inferdash.notifications.shown";
const MOST = 100; // ids that are remembered
const [SOON, LATE] = [2000, 60_000]; // ms before the socket is opened again
const STAY_AWAY = [4401, 4403]; // codes after which it is not

/** @typedef {{id: string, title: string, text: string, url: string}} Notice */

// Browsers of telephones have the class and refuse to make one.
let isRefused = false;

/** @param {string} key */
function read(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null; // storage is switched off in this browser
  }
}

/** @returns {"insecure" | "missing" | "denied" | "off" | "on"} */
export function state() {
  if (!isSecureContext) return "insecure";
  if (isRefused || !("Notification" in window && "locks" in navigator)) return "missing";
  if (Notification.permission === "denied") return "denied";
  return Notification.permission === "granted" && read(ON) === "on" ? "on" : "off";
}

/** Asks the person, in the browser's own words, and shows a first one. */
export async function turnOn() {
  if ((await Notification.requestPermission()) !== "granted") return;
  try {
    show({ id: "on", title: "inferdash", text: "Notifications arrive here.", url: location.href });
  } catch {
    isRefused = true;
    return;
  }
  try {
    localStorage.setItem(ON, "on");
    // What is there already is no news to somebody who looks at it.
    localStorage.removeItem(SHOWN);
  } catch {
    return;
  }
  listen();
}

export function turnOff() {
  localStorage.removeItem(ON);
  socket?.close();
}

/** @param {Notice} notice */
function show({ id, title, text, url }) {
  // A tag of its own: where two tabs show it all the same, the second replaces the first.
  const made = new Notification(title, { body: text, tag: `inferdash-${id}`, icon: icon() });
  made.addEventListener("click", () => {
    made.close();
    window.focus();
    location.assign(url);
  });
}

function icon() {
  return document.querySelector("link[rel=icon]")?.getAttribute("href") ?? "";
}

/** @param {Notice[]} notices all of the last minutes */
function tell(notices) {
  const kept = read(SHOWN);
  /** @type {string[]} */
  const shown = kept === null ? notices.map(({ id }) => id) : JSON.parse(kept);
  for (const notice of notices) if (!shown.includes(notice.id)) show(notice);
  const ids = new Set([...shown, ...notices.map(({ id }) => id)]);
  localStorage.setItem(SHOWN, JSON.stringify([...ids].slice(-MOST)));
}

/** @type {WebSocket | null} */
let socket = null;

/** @param {number} pause @param {() => void} done when it is not opened any more */
function connect(pause, done) {
  if (state() !== "on") return done();
  socket = new WebSocket(new URL("/ws/notices/", location.href.replace(/^http/, "ws")));
  socket.addEventListener("message", (event) => {
    pause = SOON;
    // Turned off in another tab.
    if (state() === "on") tell(JSON.parse(event.data).notices);
    else socket?.close();
  });
  socket.addEventListener("close", ({ code }) => {
    if (STAY_AWAY.includes(code) || state() !== "on") return done();
    setTimeout(() => connect(Math.min(2 * pause, LATE), done), pause);
  });
}

/** The tab that has the lock listens; when it is closed, the next one gets it. */
function listen() {
  navigator.locks.request("inferdash.notifications", () => new Promise((done) => connect(SOON, () => done(null))));
}

if (document.querySelector(".shell") && state() === "on") listen();
