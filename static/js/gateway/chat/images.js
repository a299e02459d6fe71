// @ts-check
// Pictures and text files for the next question: chosen, pasted or dropped, and shown.

import { PartError, fetchPart, quietly } from "../../page/fetch-part.js";

const MOST = 4; // of a question

export class Images extends EventTarget {
  /** @type {Chat.Attached[]} */
  images = [];
  busy = 0; // files that are still to be read
  /** @type {Promise<void>} */
  reading = Promise.resolve();
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
      const files = [...(event.clipboardData?.files ?? [])];
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

  // One after the other: they stand in the order in which they were added, however long one takes.
  /** @param {File[]} files */
  take(files) {
    this.says = "";
    this.busy += files.length;
    this.draw();
    const read = () => this.readThem(files);
    this.reading = this.reading.then(read, read);
    quietly(this.reading);
  }

  /** @param {File[]} files */
  async readThem(files) {
    for (const [index, file] of files.entries()) {
      if (this.images.length >= MOST) {
        this.says = `A question takes ${MOST} files: ${file.name} was left out.`;
        this.busy -= files.length - index;
        break;
      }
      try {
        const { PictureError, read, isPictureFile } = await fetchPart("reads pictures", () => import("./picture-file.js"));
        const { TextFileError, readText } = await fetchPart("reads files", () => import("./files.js"));
        const one = await (isPictureFile(file) ? read(file) : readText(file)).catch((error) => {
          if (!(error instanceof PictureError || error instanceof TextFileError)) throw error;
          this.says = error.message;
        });
        if (one) this.images.push(one);
      } catch (error) {
        if (!(error instanceof PartError)) throw error;
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
    return this.busy ? "A file is being made ready." : "";
  }

  draw() {
    const shown = this.images.length > 0;
    if (shown) quietly(this.drawThem());
    else this.list.replaceChildren();
    const cannot = this.images.some((each) => "url" in each) && this.taken === false ? "By its config.json the model of this server takes no pictures: the engine will probably refuse them." : "";
    this.note.textContent = [cannot, this.says].filter(Boolean).join(" ");
    this.note.classList.toggle("attention", Boolean(this.note.textContent));
    this.dispatchEvent(new Event("change"));
  }

  async drawThem() {
    const { thumbnails } = await fetchPart("shows files", () => import("./pictures.js"));
    if (this.images.length) this.list.replaceChildren(thumbnails(this.images, (one) => this.remove(one)));
  }

  /** @param {Chat.Attached} one */
  remove(one) {
    this.images = this.images.filter((each) => each !== one);
    this.draw();
  }
}
