// @ts-check
// Pictures for a question: chosen, pasted or dropped, made small enough, shown.

import { button, element, size } from "../../page/dom.js";

const KINDS = ["image/png", "image/jpeg", "image/webp", "image/gif"];
const URL_OF_PICTURE = /^data:image\/(?:png|jpeg|webp|gif);base64,[A-Za-z0-9+/]+={0,2}$/;
const MOST = 4; // of a question
const SIDE = 1536; // px; models scale larger ones down themselves
const BYTES = 2 ** 20; // of one, as it is sent
const LARGEST = 50 * 2 ** 20; // of a file that is looked at
const QUALITIES = [0.9, 0.8, 0.65, 0.5];

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

export class Images extends EventTarget {
  /** @type {Chat.Picture[]} */
  images = [];
  busy = 0;
  says = "";
  /** The chosen server's word on pictures; undefined: it says none. @type {boolean | undefined} */
  taken;

  /**
   * @param {{
   *   input: HTMLInputElement,
   *   choose: HTMLElement,
   *   list: HTMLElement,
   *   area: HTMLElement,
   *   drop: HTMLElement,
   *   note: HTMLElement,
   * }} parts
   */
  constructor({ input, choose, list, area, drop, note }) {
    super();
    this.list = list;
    this.note = note;
    choose.addEventListener("click", () => input.click());
    input.addEventListener("change", () => {
      this.take([...(input.files ?? [])]);
      input.value = "";
    });
    area.addEventListener("paste", (event) => {
      const files = [...(event.clipboardData?.files ?? [])].filter((file) => file.type.startsWith("image/"));
      if (!files.length) return;
      event.preventDefault();
      this.take(files);
    });
    /** @param {DragEvent} event */
    const isFiles = (event) => event.dataTransfer?.types.includes("Files");
    drop.addEventListener("dragover", (event) => {
      if (!isFiles(event)) return;
      event.preventDefault();
      drop.classList.add("dropping");
    });
    drop.addEventListener("dragleave", (event) => {
      if (!(event.relatedTarget instanceof Node && drop.contains(event.relatedTarget))) drop.classList.remove("dropping");
    });
    drop.addEventListener("drop", (event) => {
      if (!isFiles(event)) return;
      event.preventDefault();
      drop.classList.remove("dropping");
      this.take([...(event.dataTransfer?.files ?? [])]);
    });
  }

  // The chosen server's word on pictures: false when its model takes none.
  /** @param {boolean | undefined} isTaken */
  set isTaken(isTaken) {
    if (this.taken === isTaken) return;
    this.taken = isTaken;
    this.draw();
  }

  /** @param {File[]} files */
  async take(files) {
    this.says = "";
    for (const file of files) {
      if (this.images.length + this.busy >= MOST) {
        this.says = `A question takes ${MOST} pictures: ${file.name} was left out.`;
        break;
      }
      this.busy += 1;
      this.draw();
      try {
        this.images.push(await read(file));
      } catch (error) {
        if (!(error instanceof PictureError)) throw error;
        this.says = error.message;
      } finally {
        this.busy -= 1;
      }
    }
    this.draw();
  }

  // Those that go with the question that is sent now.
  give() {
    const given = this.images;
    this.images = [];
    this.says = "";
    this.draw();
    return given;
  }

  get problem() {
    return this.busy ? "A picture is being made ready." : "";
  }

  draw() {
    const shown = this.images.length > 0;
    this.list.replaceChildren(...(shown ? [thumbnails(this.images, (image) => this.remove(image))] : []));
    const cannot = shown && this.taken === false ? "By its config.json the model of this server takes no pictures: the engine will probably refuse them." : "";
    this.note.textContent = [cannot, this.says].filter(Boolean).join(" ");
    this.note.classList.toggle("attention", Boolean(this.note.textContent));
    this.dispatchEvent(new Event("change"));
  }

  /** @param {Chat.Picture} image */
  remove(image) {
    this.images = this.images.filter((each) => each !== image);
    this.draw();
  }
}

class PictureError extends Error {}

/** @param {File} file @returns {Promise<Chat.Picture>} */
async function read(file) {
  if (!KINDS.includes(file.type)) {
    throw new PictureError(`${file.name} is no PNG, JPEG, WebP or GIF: save it as one of these, then add it again.`);
  }
  if (file.size > LARGEST) throw new PictureError(`${file.name} is ${size(file.size)}; ${size(LARGEST)} is the limit.`);
  let bitmap;
  try {
    bitmap = await createImageBitmap(file);
  } catch {
    throw new PictureError(`${file.name} could not be read as a picture: it may be damaged.`);
  }
  try {
    const { width, height } = bitmap;
    const isSmall = Math.max(width, height) <= SIDE && file.size <= BYTES;
    if (isSmall) return { name: file.name, url: await dataUrl(file), width, height, bytes: file.size, note: "" };
    return await shrunk(file, bitmap);
  } finally {
    bitmap.close();
  }
}

/** @param {File} file @param {ImageBitmap} bitmap @returns {Promise<Chat.Picture>} */
async function shrunk(file, bitmap) {
  const scale = Math.min(1, SIDE / Math.max(bitmap.width, bitmap.height));
  const width = Math.max(1, Math.round(bitmap.width * scale));
  const height = Math.max(1, Math.round(bitmap.height * scale));
  const canvas = Object.assign(document.createElement("canvas"), { width, height });
  const context = canvas.getContext("2d");
  if (!context) throw new PictureError(`${file.name} could not be made smaller: this browser has no memory left to draw it.`);
  context.fillStyle = "white"; // JPEG has no transparency
  context.fillRect(0, 0, width, height);
  context.drawImage(bitmap, 0, 0, width, height);
  for (const quality of QUALITIES) {
    /** @type {Blob | null} */
    const made = await new Promise((resolve) => canvas.toBlob(resolve, "image/jpeg", quality));
    if (!made || made.size > BYTES) continue;
    const note = `made smaller from ${bitmap.width} × ${bitmap.height}, ${size(file.size)}`;
    return { name: file.name, url: await dataUrl(made), width, height, bytes: made.size, note };
  }
  throw new PictureError(`${file.name} could not be made smaller than ${size(BYTES)}. Cut it, then add it again.`);
}

/** @param {Blob} blob @returns {Promise<string>} */
const dataUrl = (blob) =>
  new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.addEventListener("load", () => resolve(String(reader.result)));
    reader.addEventListener("error", () => reject(new PictureError("The picture could not be read.")));
    reader.readAsDataURL(blob);
  });
