// The service's answers; what goes wrong on the way has a name and a sentence.

const PATIENCE = 15_000;
const TOKEN = "starcast/token";

/** The service answered, but not with what was asked for. `message` is its own sentence, `token` what was sent. */
export class Refused extends Error {
  constructor(status, message, token = null) {
    super(message);
    this.status = status;
    this.token = token;
  }
}

/** No answer came. */
export class Unreachable extends Error {}

/** GET with query parameters; lists are repeated. */
export function get(path, query = {}, signal) {
  const words = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) words.append(name, value);
  const tail = words.toString();
  return ask(tail ? `${path}?${tail}` : path, { method: "GET" }, signal);
}

export function post(path, body, signal) {
  return ask(
    path,
    { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) },
    signal,
  );
}

let token = null;

/** Remember it for this visit: beyond a reload, unless storage is barred. */
export function keepToken(given) {
  token = given;
  try {
    sessionStorage.setItem(TOKEN, given);
  } catch {
    // The variable has it.
  }
}

/** Whether a text can be a token: no header could carry others. */
export const isToken = (text) => /^[!-~]+$/.test(text);

export function forgetToken(refused) {
  if (keptToken() !== refused) return;
  token = null;
  try {
    sessionStorage.removeItem(TOKEN);
  } catch {
    // It was not kept there.
  }
}

function keptToken() {
  try {
    token ??= sessionStorage.getItem(TOKEN);
  } catch {
    // The variable has it.
  }
  return token !== null && isToken(token) ? token : null;
}

/** Only the latest of a row of questions counts: asking again drops the one before. */
export function latest() {
  let current = null;
  return async (question) => {
    current?.abort();
    const mine = new AbortController();
    current = mine;
    const answer = await question(mine.signal);
    return mine.signal.aborted ? Promise.reject(new DOMException("overtaken", "AbortError")) : answer;
  };
}

async function ask(path, options, signal) {
  const patience = AbortSignal.timeout(PATIENCE);
  const known = keptToken();
  const headers = known ? { ...options.headers, authorization: `Bearer ${known}` } : options.headers;
  let response;
  try {
    response = await fetch(path, {
      ...options,
      headers,
      signal: signal ? AbortSignal.any([signal, patience]) : patience,
    });
    const body = parse(await response.text());
    if (response.ok) return body;
    throw new Refused(response.status, body?.error?.message ?? `the service answered ${response.status}`, known);
  } catch (error) {
    if (error instanceof Refused || signal?.aborted) throw error;
    if (response && !response.ok) throw new Refused(response.status, `the service answered ${response.status}`, known);
    throw new Unreachable(error.message);
  }
}

const TOKENS = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/** JSON whose whole numbers beyond 2^53, which are names, become text: the service takes names either way. */
function parse(text) {
  const safe = (token) => token.startsWith('"') || !/^-?\d{16,}$/.test(token) || Number.isSafeInteger(Number(token));
  return JSON.parse(/\d{16}/.test(text) ? text.replace(TOKENS, (token) => (safe(token) ? token : `"${token}"`)) : text);
}
