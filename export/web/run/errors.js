// Faults that a user can meet: one line that says what is wrong, and one that says what would work.

export class Fault extends Error {
  /** kinds: network, hash, storage, device (a GPU that cannot be used), lost (one that was), engine, unsupported. */
  constructor(kind, message, hint = "") {
    super(message);
    this.kind = kind;
    this.hint = hint;
  }
}

/** Return any exception as plain data for the page. */
export function faultOf(error) {
  if (error instanceof Fault) return { kind: error.kind, message: error.message, hint: error.hint };
  if (error?.name === "AbortError") return { kind: "stopped", message: "it was stopped", hint: "" };
  console.error(error);
  return { kind: "broken", message: `this page failed: ${error?.message ?? error}`.slice(0, 400), hint: "reload it" };
}
