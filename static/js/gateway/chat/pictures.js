// @ts-check
// Pictures and text files of a question: how they are shown, how an engine gets them.

import { button, element, size } from "../../page/dom.js";
import { icon } from "../../page/toast.js";
import { quoted, textFiles } from "./files.js";

const URL_OF_PICTURE = /^data:image\/(?:png|jpeg|webp|gif);base64,[A-Za-z0-9+/]+={0,2}$/;
// Stored conversations come from elsewhere, too: nothing but a picture may be one.
/** @param {unknown} image @returns {image is Chat.Picture} */
export const isPicture = (image) => {
  const url = image && typeof image === "object" && "url" in image ? image.url : null;
  return typeof url === "string" && URL_OF_PICTURE.test(url);
};

/** @param {{images?: unknown}} message @returns {Chat.Picture[]} */
export const pictures = (message) => (Array.isArray(message.images) ? message.images.filter(isPicture) : []);

// All that goes with a question.
/** @param {{images?: unknown, files?: unknown}} message @returns {Chat.Attached[]} */
export const attached = (message) => [...pictures(message), ...textFiles(message)];

// The content of a question for an engine: its files first, then what is asked about them.
/** @param {Chat.Question} message */
export function parts(message) {
  const shown = pictures(message);
  const text = [...textFiles(message).map(quoted), message.content].filter(Boolean).join("\n\n");
  if (!shown.length) return text;
  /** @type {Chat.Part[]} */
  const found = shown.map(({ url }) => ({ type: "image_url", image_url: { url } }));
  if (text) found.unshift({ type: "text", text });
  return found;
}

/** @param {Chat.Attached[]} all @param {(one: Chat.Attached) => void} [remove] */
export function thumbnails(all, remove) {
  return element(
    "ul", "pictures",
    ...all.map((one) => {
      const text = element("figcaption", "", element("span", "picture-name", one.name), element("span", "note", words(one)));
      const figure = element("figure", "", "url" in one ? thumbnail(one) : icon("file"), text);
      if (remove) figure.append(button("×", `Remove ${one.name}`, () => remove(one)));
      return element("li", "", figure);
    }),
  );
}

/** @param {Chat.Attached} one */
function words(one) {
  if (!("url" in one)) return size(one.bytes);
  return [`${one.width} × ${one.height}`, size(one.bytes), one.note].filter(Boolean).join(", ");
}

/** @param {Chat.Picture} image */
function thumbnail(image) {
  const shown = element("img", "picture");
  shown.src = image.url;
  shown.alt = image.name;
  return shown;
}
