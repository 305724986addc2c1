// Small values that outlive a reload: of the tab, or of the browser. Where storage is forbidden or full they last as long as
// the page.

class Kept {
  #open;
  #values = new Map();

  constructor(open) {
    this.#open = open;
  }

  get(name) {
    try {
      return this.#open().getItem(`edgedec.${name}`) ?? this.#values.get(name) ?? null;
    } catch {
      return this.#values.get(name) ?? null;
    }
  }

  /** Keep a text; an empty one or null forgets it. */
  set(name, value) {
    this.#values.set(name, value || null);
    try {
      if (value) this.#open().setItem(`edgedec.${name}`, value);
      else this.#open().removeItem(`edgedec.${name}`);
    } catch {
      // The page has it.
    }
  }
}

export const ofTab = new Kept(() => sessionStorage);
export const ofBrowser = new Kept(() => localStorage);
