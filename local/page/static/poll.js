// Asks for the document again and again; says when the stack does not answer, and when it does again.

const EVERY_MS = 2000;
const PATIENCE_MS = 8000;
const PATIENCE_OF_ACTIONS_MS = 60000; // a burst ends after thirty seconds
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
      if (!(error instanceof Refused)) console.error(error);
      this.onLost(error instanceof Refused ? error.message : "The page cannot show what the stack answered: load it again.");
    } finally {
      this.#asking = false;
    }
    const wait = this.#again ? 0 : EVERY_MS;
    this.#again = false;
    this.#timer = setTimeout(() => this.now(), wait);
  }
}

async function read() {
  const state = await answer("state.json", { cache: "no-store" }, PATIENCE_MS);
  if (state.version !== VERSION) throw new Refused("This page is of another version than the stack: load it again.");
  return state;
}

/** Ask the stack to do something; gives its answer or throws with its words. */
export async function ask(path, asked) {
  const headers = { "content-type": "application/json", "x-streamhub-page": "1" };
  return answer(path, { method: "POST", headers, body: JSON.stringify(asked) }, PATIENCE_OF_ACTIONS_MS);
}

async function answer(path, options, patience) {
  let response;
  try {
    response = await fetch(`/_streamhub/${path}`, { ...options, signal: AbortSignal.timeout(patience) });
    if (response.ok) return await response.json();
  } catch (error) {
    throw new Refused(reasonOf(error, patience));
  }
  throw new Refused(await said(response));
}

class Refused extends Error {}

async function said(response) {
  try {
    return (await response.json()).error;
  } catch {
    return `The stack answered ${response.status} without a reason.`;
  }
}

function reasonOf(error, patience) {
  if (error.name === "TimeoutError") return `The stack takes longer than ${patience / 1000} seconds to answer.`;
  return error.name === "SyntaxError" ? "The stack answered with something that is no JSON." : "The stack does not answer.";
}
