// @ts-check
// A picture's file, read and made small enough.

import { size } from "../../page/dom.js";

const KINDS = ["image/png", "image/jpeg", "image/webp", "image/gif"];
const SIDE = 1536; // px; models scale larger ones down themselves
const BYTES = 2 ** 20; // of one, as it is sent
const LARGEST = 50 * 2 ** 20; // of a file that is looked at
const QUALITIES = [0.9, 0.8, 0.65, 0.5];

export class PictureError extends Error {}

/** @param {File} file */
export const isPictureFile = (file) => KINDS.includes(file.type);

/** @param {File} file @returns {Promise<Chat.Picture>} */
export async function read(file) {
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
