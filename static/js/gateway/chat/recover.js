// @ts-check
// Conversations that only this browser has: what earlier pages could not send, and what it kept before
// the server did.

import { Saving } from "./save.js";
import { settle } from "./store.js";
import { shown } from "./versions.js";

/** @import { Store } from "./store.js" */

const ABANDONED = 120_000; // ms after which a draft is nobody's: tabs renew theirs more often

/** @param {Store} store @param {string[]} keys */
export async function recover(store, keys) {
  for (const key of keys) {
    const isDraft = key.startsWith(store.drafts);
    const kept = read(key);
    /** @type {Chat.Kept | undefined} */
    const conversation = isDraft ? kept?.conversation : kept;
    if (!conversation || !Array.isArray(conversation.messages)) continue; // not ours, or damaged: it is left alone
    if (isDraft && !kept.left && Date.now() - kept.at < ABANDONED) continue; // an open tab's
    if (!conversation.messages.length) {
      localStorage.removeItem(key);
      continue;
    }
    settle(conversation.messages, false);
    const found = { ...shown(conversation), since: conversation.updated };
    const saving = new Saving(found, { post: store.post, seen: isDraft ? kept.seen : [] });
    saving.around = "";
    if (await move(store, saving)) localStorage.removeItem(key);
  }
}

// Whether the server has it now.
/** @param {Store} store @param {Saving} saving */
async function move(store, saving) {
  saving.mark();
  for (let tries = 0; tries < 3; tries++) {
    const body = saving.body();
    if (!body) return true;
    saving.mark();
    const { status, message } = await store.post(saving.conversation.id, body.text);
    if (status === "kept") {
      saving.took(body);
      tries = -1; // there may be more of it
    } else if (status === "changed") {
      await store.reconcile(saving);
    } else {
      store.tell(status, { conversation: saving.conversation, message });
      return false;
    }
  }
  return false;
}

/** @param {string} key */
function read(key) {
  try {
    return JSON.parse(localStorage.getItem(key) ?? "null");
  } catch {
    return null;
  }
}
