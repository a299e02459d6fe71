// @ts-check
// The socket of one run's log: connects again by itself until it is told to stay away.

const FIRST_WAIT = 500;
const LONGEST_WAIT = 10_000;
// No reconnect brings these on: 4400 nonsense, 4401 logged out, 4403 not allowed, 4404 no run.
/** @type {Record<number, string>} */
const REFUSED = {
  4400: "This page is older than the server. Reload it.",
  4401: "You are logged out. Log in again to see the log.",
  4403: "You may not see this log. Ask an admin for the role viewer.",
  4404: "This run and its log were deleted.",
};

/**
 * @typedef {"connecting" | "open" | "waiting" | "refused" | "complete"} State
 * @typedef {{
 *   message(message: Log.Told | Log.Pushed): void,
 *   state(name: State, words: string): void,
 * }} On
 */

export class LogSocket {
  /** @type {ReturnType<typeof setTimeout> | null} */
  timer = null;
  /** @type {WebSocket | null} */
  socket = null;
  isClosed = false;

  /** @param {string} run @param {On} on */
  constructor(run, on) {
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    this.url = `${scheme}://${location.host}/ws/runs/${run}/log/`;
    this.on = on;
    this.wait = FIRST_WAIT;
    this.hurry = () => this.#hurry();
    addEventListener("online", this.hurry);
    document.addEventListener("visibilitychange", this.hurry);
    this.#connect();
  }

  /** @param {Log.Wish} wish */
  send(wish) {
    if (this.socket?.readyState !== WebSocket.OPEN) return false;
    this.socket.send(JSON.stringify(wish));
    return true;
  }

  close() {
    clearTimeout(this.timer ?? undefined);
    removeEventListener("online", this.hurry);
    document.removeEventListener("visibilitychange", this.hurry);
    this.isClosed = true;
    this.socket?.close();
  }

  #connect() {
    this.timer = null;
    this.on.state("connecting", "connecting…");
    const socket = (this.socket = new WebSocket(this.url));
    socket.addEventListener("open", () => {
      this.wait = FIRST_WAIT;
      this.on.state("open", "live");
    });
    socket.addEventListener("message", (event) => this.on.message(JSON.parse(event.data)));
    socket.addEventListener("close", (event) => {
      if (this.isClosed) return;
      const refused = REFUSED[event.code];
      if (refused) {
        this.on.state("refused", refused);
        return;
      }
      this.on.state("waiting", "reconnecting…");
      this.timer = setTimeout(() => this.#connect(), this.wait * (0.75 + Math.random() / 2));
      this.wait = Math.min(this.wait * 2, LONGEST_WAIT);
    });
  }

  // A tab that wakes up or a network that is back need not wait.
  #hurry() {
    if (!this.timer || document.hidden) return;
    clearTimeout(this.timer);
    this.wait = FIRST_WAIT;
    this.#connect();
  }
}
