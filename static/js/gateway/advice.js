// @ts-check
// What to say beside a test: what to do about a step that failed, and where it cannot reach.

export const TOO_SLOW = "too_slow"; // this page’s own: nobody has refused anything

// By code.
/** @type {Record<string, (refused: Gateway.Refusal) => string>} */
const KNOWN = {
  no_key: () => "Type a key, or make one.",
  invalid_api_key: () => "Make a key that may use models, and type it above. A key that was just revoked counts for 5 s more.",
  model_not_allowed: () => "Choose a model that this key may use, or make a key for this one.",
  model_not_found: () => "Reload this page: the name is not served any more. Then choose another one.",
  model_not_ready: ({ retryAfter }) =>
    retryAfter ? `It is on its way: test again in ${retryAfter} s.` : "Test again when it is ready.",
  model_not_started: () => "Test again when that is out of its way.",
  rate_limited: ({ retryAfter }) => `Test again in ${retryAfter} s, or make a key with a higher limit.`,
  no_such_path: () => "Choose a model whose engine has it.",
  [TOO_SLOW]: () => "The server’s page says what it has to do, and how far a start is. Test again when it has less to do, or is ready.",
  box_away: () => "Its box cannot be reached now: see Boxes. The engine itself goes on.",
  engine_lost: () => "The server’s page says why it ended. Start it again, then test again.",
};

const NO_TOOLS =
  "It refuses tools, which this program sends. For vLLM and SGLang its profile needs a tool parser: the playground " +
  "lists that under “Unavailable features” and adds it with one click.";

// Whether the engine itself will not take what was asked.
/** @param {Gateway.Refusal} refused */
export function refuses({ status, code, isCut, isForeign }) {
  return status !== null && status >= 400 && status < 500 && !code && !isCut && !isForeign;
}

/** @param {Gateway.Refusal} refused @param {Gateway.Step} step */
export function advice(refused, step) {
  if (refused.isForeign) return foreign(refused);
  const known = KNOWN[refused.code];
  if (known) return known(refused);
  if (refused.isCut) return "The engine broke its answer off. The server’s page and its log say why; then test again.";
  if (refuses(refused)) return step.hasTool ? NO_TOOLS : "The engine itself refuses this. Its message says what it lacks; programs would hear the same.";
  return "An error of the engine, or of inferdash. The server’s page and the log of the web process say which.";
}

/** @param {Gateway.Refusal} refused */
function foreign({ status }) {
  if (status && status !== 200) return "This is not inferdash’s own answer: a proxy between this browser and inferdash gave it. Look there.";
  return "Check that inferdash runs and that this machine is online, then test again.";
}

// Where the address that lines name leads elsewhere than to whom this page asks, which no test by
// this browser can show. "" where it does not.
const OWN = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/;

/** @param {string} address @param {string} here */
export function reach(address, here) {
  const { origin, hostname } = new URL(address);
  if (origin !== here) {
    return `The lines say ${origin}, and this page is open at ${here}: a test asks the latter. Put it into the lines where the other is not reached.`;
  }
  if (OWN.test(hostname)) {
    return `${hostname} works only on this machine. Open this page by the box’s hostname to get examples to share.`;
  }
  return "";
}
