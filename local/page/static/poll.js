// Asks for the document again and again; says when the stack does not answer, and when it does again.

const EVERY_MS = 2000;
const PATIENCE_MS = 8000;
const URL_OF_STATE = "/_streamhub/state.json";
const VERSION = 1;

export class Poller {
  #timer = null;
  #asking = false;
  #again = false;

  /** `onState` gets each document, `onLost` a reason in words. */
  constructor({ onState, onLost }) {
    this.onState = onState;
    this.onLost = onLost;
    document.addEventListener("visibilitychange", () => this.now());
  }

  /** Ask at once. */
  async now() {
    if (this.#asking) {
      this.#again = true;
      return;
    }
    clearTimeout(this.#timer);
    if (document.visibilityState === "hidden") return;
    this.#asking = true;
    try {
      this.onState(await read());
    } catch (error) {
      this.onLost(reasonOf(error));
    } finally {
      this.#asking = false;
    }
    const wait = this.#again ? 0 : EVERY_MS;
    this.#again = false;
    this.#timer = setTimeout(() => this.now(), wait);
  }
}

async function read() {
  const response = await fetch(URL_OF_STATE, { cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS) });
  if (!response.ok) throw new Refused(await said(response));
  const state = await response.json();
  if (state.version !== VERSION) throw new Refused("This page is of another version than the stack: load it again.");
  return state;
}

/** Ask the stack to do something; gives its answer or throws with its words. */
export async function ask(path, asked) {
  let response;
  try {
    response = await fetch(`/_streamhub/${path}`, {
      method: "POST",
      headers: { "content-type": "application/json", "x-streamhub-page": "1" },
      body: JSON.stringify(asked),
    });
  } catch (error) {
    throw new Refused(reasonOf(error));
  }
  if (!response.ok) throw new Refused(await said(response));
  return response.json();
}

class Refused extends Error {}

async function said(response) {
  try {
    return (await response.json()).error;
  } catch {
    return `The stack answered ${response.status} without a reason.`;
  }
}

function reasonOf(error) {
  if (error instanceof Refused) return error.message;
  return error.name === "TimeoutError" ? "The stack takes longer than 8 seconds to answer." : "The stack does not answer.";
}
