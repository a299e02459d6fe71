// @ts-check
// The playground: puts conversation, servers and settings together. What a conversation needs once
// something is said comes with its first message (talk.js), and so do the fields of its settings.

import { Composer } from "./composer.js";
import { CsrfToken } from "../../page/dom.js";
import { fetchPart, quietly, PartError } from "../../page/fetch-part.js";
import { toast } from "../../page/toast.js";
import { End } from "./end.js";
import { Exchange } from "./exchange.js";
import { emptyState, Servers, Standing } from "./servers.js";
import { Images } from "./images.js";
import { List } from "./list.js";
import { Menus } from "./menu.js";
import { $, hear, idInAddress, page, putInAddress } from "./page.js";
import { Picker } from "./picker.js";
import { Settings } from "./settings.js";
import { Side } from "./side.js";
import { AwayError, Store, titleOf } from "./store.js";
import { begin } from "./versions.js";
import { welcome } from "./welcome.js";

const LOOK_AGAIN = 3000; // ms, while another tab receives one

/** @typedef {typeof import("./talk.js")} Talk */

export class Chat {
  isAway = false;
  wanted = ""; // the conversation that is to be shown: somebody may click on another one meanwhile
  watching = 0; // timers
  looking = 0;
  /** @type {Talk | null} */
  talk = null;
  /** @type {import("./abilities.js").Abilities | null} */
  abilities = null;
  /** @type {import("./transcript.js").Transcript | null} */
  transcript = null;
  /** Who is named where nothing has been said. @type {string | undefined} */
  invited = "";

  constructor() {
    this.exchange = new Exchange(this);
    this.csrf = new CsrfToken(page, $("chat-composer"));
    this.store = new Store({ user: page.dataset.user ?? "", url: page.dataset.conversations ?? "", csrf: this.csrf });
    this.composer = new Composer({
      send: () => quietly(this.exchange.send()),
      stop: () => this.exchange.stop(),
      typed: () => {
        this.refresh();
        import("./talk.js").catch(() => {}); // what is not had now is asked for again, and missed, then
      },
      last: (event) => this.editLast(event),
      unsent: `chat.${page.dataset.user}`,
      about: page.dataset.conversation,
    });
    this.servers = new Servers({ list: $("chat-servers"), here: page.dataset.here ?? "", preselected: page.dataset.preselected ?? "" });
    new Picker($("chat-server"), this.servers);
    new Standing({ root: $("chat-standings"), servers: this.servers });
    this.settings = new Settings({ servers: this.servers, csrf: this.csrf, presets: page.dataset.presets });
    this.images = new Images({
      input: $("chat-files"), choose: $("chat-attach"), list: $("chat-pictures"), area: $("chat-input"), drop: $("chat-middle"), note: $("chat-pictures-note"),
    });
    this.end = new End($("chat-transcript"), $("chat-newest"));
    this.list = new List({
      store: this.store,
      list: $("chat-conversations"),
      search: $("chat-search"),
      more: $("chat-older"),
      compared: page.dataset.compare,
      open: (id) => this.go(id),
      remove: (id, title) => this.remove(id, title),
      rename: (id, name) => this.rename(id, name),
    });
    this.menus = new Menus({
      compare: $("chat-compare"),
      server: () => this.servers.wanted,
      store: this.store,
      current: () => this.conversation,
      asked: () => ({ base: `${location.origin}/v1`, params: this.settings.request, model: this.servers.find(this.servers.wanted)?.model ?? "" }),
      say: (text) => this.notice(text),
    });
    this.lists = new Side({ panel: $("chat-list"), button: $("chat-list-button"), place: page, name: "list", isShown: true });
    new Side({ panel: $("chat-params"), button: $("chat-params-button"), place: page, name: "params", opened: () => quietly(this.settings.load()) });
    this.conversation = this.store.create({}, this.servers.wanted);
    this.listen();
    hear(this);
    this.show(this.conversation);
    if (page.dataset.conversation) this.arrive(page.dataset.conversation);
    else this.composer.focus();
    this.store.ready.then(() => this.list.load());
  }

  get running() {
    return this.exchange.running;
  }

  listen() {
    this.servers.addEventListener("change", () => this.refresh());
    this.settings.addEventListener("change", () => {
      Object.assign(this.conversation, this.settings.values);
      if (this.conversation.messages.length) this.save();
      this.refresh();
    });
    this.settings.addEventListener("refresh", () => this.refresh());
    this.images.addEventListener("change", () => this.refresh());
    for (const id of /** @type {const} */ (["chat-new", "chat-new-above"])) $(id).addEventListener("click", () => this.begin());
    $("chat-name").addEventListener("change", () => {
      this.conversation.name = $("chat-name").value.trim();
      if (this.conversation.messages.length) this.save();
      this.list.put(this.conversation, true);
    });
    window.addEventListener("pagehide", () => this.leave());
    // Else htmx fetches the page anew into this one, whose scripts know nothing of it.
    document.addEventListener("htmx:before:history:restore", (event) => event.preventDefault());
    window.addEventListener("popstate", () => this.arrive(idInAddress()));
    document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && this.lookAgain());
  }

  // Other tabs and browsers may have kept something since.
  /** @param {string} [id] */
  async lookAgain(id) {
    await this.list.load();
    const mine = this.conversation;
    const listed = this.list.revisionOf(mine.id);
    if ((id && id !== mine.id) || (listed && this.store.knows(mine.id, listed))) return;
    if (this.running || this.store.isBusy(mine.id) || !mine.messages.length) return;
    const now = await this.store.get(mine.id).catch((error) => void away(error));
    if (!now || this.conversation !== mine || this.running) return;
    this.showAgain(now);
  }

  // The same conversation as it is now, where somebody may be reading it.
  /** @param {Chat.Conversation} conversation */
  showAgain(conversation) {
    const { isNear } = this.end;
    const place = document.documentElement.scrollTop;
    this.show(conversation);
    if (isNear) this.end.settle();
    else document.documentElement.scrollTop = place;
  }

  fresh() {
    return this.store.create(this.conversation.params, this.servers.wanted, this.settings.values);
  }

  // What shows and asks, once something is said: it stays then.
  async talking() {
    if (this.talk) return this.talk;
    const [talk] = await Promise.all([fetchPart("shows answers", () => import("./talk.js")), this.store.load()]);
    this.abilities ??= new talk.Abilities({ csrf: this.csrf });
    this.talk = talk;
    if (!this.transcript) {
      this.transcript = new talk.Transcript($("chat-transcript"), (message) => this.view(message));
      this.transcript.show(this.conversation.messages);
    }
    return talk;
  }

  begin() {
    if (this.lists.isDrawer) this.lists.shut();
    this.composer.turn("");
    this.show(this.fresh());
    putInAddress("", false);
    this.composer.focus();
  }

  // Open it, and let its address stand in the browser's.
  /** @param {string} id */
  async go(id) {
    await this.arrive(id, () => putInAddress(id, false));
  }

  // Open the conversation of this address; "" is a new one.
  /** @param {string} id @param {() => void} [then] */
  async arrive(id, then = () => {}) {
    if (!id) {
      this.composer.turn("");
      this.show(this.fresh());
      return;
    }
    this.wanted = id;
    try {
      const found = this.running?.conversation.id === id ? this.running.conversation : await this.store.get(id);
      if (this.wanted !== id) return;
      if (found) {
        await this.talking();
        if (this.wanted !== id) return;
        this.composer.turn(id);
        this.show(found, true);
        then();
        if (this.lists.isDrawer) this.lists.shut();
      } else {
        this.list.drop(id);
        this.notice("This conversation was deleted.");
      }
    } catch (error) {
      this.notice(away(error));
    }
  }

  /** @param {Chat.Conversation} conversation @param {boolean} [toEnd] */
  show(conversation, toEnd = false) {
    this.wanted = conversation.id;
    this.conversation = conversation;
    this.settings.open(conversation);
    if (!page.dataset.preselected || conversation.messages.length) this.servers.prefer(conversation.server);
    $("chat-name").value = conversation.name;
    this.notice();
    this.transcript?.show(conversation.messages);
    this.list.put(conversation, true);
    this.refresh();
    if (toEnd) this.end.settle();
    clearTimeout(this.watching);
    if (conversation.elsewhere) this.watching = setTimeout(() => this.lookAgain(conversation.id), LOOK_AGAIN);
  }

  /** @param {Chat.Message} message */
  view(message) {
    const { conversation, talk } = this;
    if (!talk) throw new TypeError("A message is to be shown before what shows it has come.");
    const view = talk.viewOf(message, {
      resend: (question, text, attached) => this.exchange.resend(question, text, attached),
      regenerate: (answer) => this.exchange.regenerate(answer),
      respond: (answer, results) => this.exchange.respond(answer, results),
      branch: (answer) => this.branch(answer),
      versions: () => talk.versionsView(conversation, message, (step) => talk.turn(this, message, step)),
      asked: () => talk.asked(conversation, message),
      results: () => talk.resultsOf(conversation.messages, conversation.messages.indexOf(message)),
      hint: (key, answer) => this.remark(key, answer),
    });
    view.onDraw = () => this.end.follow();
    return view;
  }

  // What the profile lacks, under the answer that shows it.
  /** @param {Chat.LackKey} key @param {Chat.Answer} answer */
  remark(key, answer) {
    if (!this.abilities || answer.server !== this.servers.wanted) return "";
    this.abilities.server = this.servers.find(answer.server);
    return this.abilities.remark(key);
  }

  // A new conversation that begins with all up to this answer.
  /** @param {Chat.Answer} answer */
  branch(answer) {
    const { messages } = this.conversation;
    const branch = this.fresh();
    branch.name = `${titleOf(this.conversation)} (branch)`.slice(0, 80);
    begin(branch, messages.slice(0, messages.indexOf(answer) + 1));
    for (const message of branch.messages) if (message.role === "assistant") delete message.key;
    this.composer.turn(branch.id);
    this.show(branch, true);
    putInAddress(branch.id, false);
    this.save();
    this.list.put(branch, true);
    this.composer.focus();
  }

  /** @param {string} id @param {string} name */
  async rename(id, name) {
    const known = [this.conversation, this.running?.conversation].find((each) => each?.id === id);
    try {
      const found = known ?? (await this.store.get(id));
      if (!found) return;
      found.name = name;
      if (found === this.conversation) $("chat-name").value = name;
      if (found.messages.length) this.save(found);
      this.list.put(found, found === this.conversation);
    } catch (error) {
      this.notice(away(error));
    }
  }

  /** @param {string} id @param {string} title */
  async remove(id, title) {
    if (this.running?.conversation.id === id) {
      this.exchange.stop();
      this.running.isRemoved = true;
    }
    const held = this.conversation.id === id ? this.conversation : null;
    try {
      await this.store.remove(id);
    } catch (error) {
      this.notice(away(error));
      return;
    }
    this.list.drop(id);
    // It would lie above the way back.
    if (this.lists.isDrawer) this.lists.shut();
    if (held) this.begin();
    if (held && !held.messages.length) return;
    toast(`Deleted “${title}”.`, { title: "Undo", run: () => this.undo(id) });
  }

  /** @param {string} id */
  async undo(id) {
    this.notice();
    try {
      await this.store.restore(id);
      await Promise.all([this.go(id), this.list.load()]);
    } catch (error) {
      this.notice(away(error));
    }
  }

  /** @param {string} [text] @param {...HTMLElement} more */
  notice(text = "", ...more) {
    $("chat-notice").replaceChildren(text, ...more);
    $("chat-notice").hidden = !text;
  }

  // What the composer, the empty state and the hints say now.
  refresh() {
    const problem = this.servers.problem || this.settings.problem || this.images.problem;
    const { running } = this;
    const images = this.servers.find(this.servers.wanted)?.images;
    this.images.isTaken = images === "true" ? true : images === "false" ? false : undefined;
    const hint = running && running.conversation !== this.conversation
      ? `“${titleOf(running.conversation)}” is being answered. Stop it to ask something here.`
      : this.conversation.elsewhere ? "An answer is arriving in another tab." : this.isTold ? "" : problem;
    const mayNot = Boolean(problem || this.conversation.elsewhere);
    this.composer.draw({ hint, isRunning: running !== null || this.exchange.isPreparing, mayNot, hasPictures: this.images.images.length > 0 });
    this.menus.refresh();
    $("chat-name").placeholder = titleOf({ ...this.conversation, name: "" });
    $("chat-empty").hidden = this.conversation.messages.length > 0;
    if (!$("chat-empty").hidden) this.invite();
    this.exchange.takeUp();
  }

  // Whether the card of the chosen server says why nothing can be sent.
  get isTold() {
    return !this.servers.chosen && $("chat-standings").querySelector(".standing:not([hidden])") !== null;
  }

  // What stands where nothing has been said yet: it stays what it is, since somebody may be pressing it.
  invite() {
    const server = this.servers.find(this.servers.wanted);
    const name = server && (server.model || server.slug);
    if (name && this.invited === name) return;
    this.invited = name;
    const example = (/** @type {string} */ text) => {
      this.composer.input.value = text;
      this.composer.focus();
      this.refresh();
    };
    $("chat-empty").replaceChildren(...(server ? welcome(server, example) : emptyState(this.servers, page.dataset.dashboard ?? "")));
  }

  // Up in an empty composer: the last question again.
  /** @param {KeyboardEvent} event */
  editLast(event) {
    const last = this.conversation.messages.findLast(({ role }) => role === "user");
    const view = last && this.transcript?.get(last);
    if (!view || this.running) return;
    event.preventDefault();
    view.edit?.();
  }

  // Keep what has changed: in this message alone, or anywhere in the conversation.
  /** @param {Chat.Conversation} [conversation] @param {Chat.Message} [message] */
  save(conversation = this.conversation, message = undefined) {
    this.store.save(conversation, message);
  }

  // The page goes, and its answer goes on in the server.
  leave() {
    this.store.leave(this.running?.conversation);
  }

}

// What cannot be had now is said where it happens; all else is a fault.
/** @param {unknown} error */
function away(error) {
  if (!(error instanceof AwayError || error instanceof PartError)) throw error;
  return error.message;
}

new Chat();
