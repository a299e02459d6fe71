// @ts-check
// Pictures of a question: which may be one, how they are shown, how an engine gets them.

import { button, element, size } from "../../page/dom.js";

const URL_OF_PICTURE = /^data:image\/(?:png|jpeg|webp|gif);base64,[A-Za-z0-9+/]+={0,2}$/;
// Stored conversations come from elsewhere, too: nothing but a picture may be one.
/** @param {unknown} image @returns {image is Chat.Picture} */
export const isPicture = (image) => {
  const url = image && typeof image === "object" && "url" in image ? image.url : null;
  return typeof url === "string" && URL_OF_PICTURE.test(url);
};

/** @param {{images?: unknown}} message @returns {Chat.Picture[]} */
export const pictures = (message) => (Array.isArray(message.images) ? message.images.filter(isPicture) : []);

// The content of a question for an engine.
/** @param {Chat.Question} message */
export function parts(message) {
  const shown = pictures(message);
  if (!shown.length) return message.content;
  /** @type {Chat.Part[]} */
  const found = shown.map(({ url }) => ({ type: "image_url", image_url: { url } }));
  if (message.content) found.unshift({ type: "text", text: message.content });
  return found;
}

/** @param {Chat.Picture[]} images @param {(image: Chat.Picture) => void} [remove] */
export function thumbnails(images, remove) {
  return element(
    "ul", "pictures",
    ...images.map((image) => {
      const shown = element("img", "picture");
      shown.src = image.url;
      shown.alt = image.name;
      const words = [`${image.width} × ${image.height}`, size(image.bytes), image.note].filter(Boolean).join(", ");
      const text = element("figcaption", "", element("span", "picture-name", image.name), element("span", "note", words));
      const figure = element("figure", "", shown, text);
      if (remove) figure.append(button("×", `Remove ${image.name}`, () => remove(image)));
      return element("li", "", figure);
    }),
  );
}
