// Questions cut to what the service says it takes.

const encoder = new TextEncoder();

/**
 * A question within the limits of `api/model`: the last ratings, the first items and candidates. Where its body is
 * still too long, the longest of these lists is halved until it is not.
 */
export function within(limits, question) {
  const cut = { ...question };
  if (cut.n !== undefined) cut.n = Math.min(cut.n, limits.n);
  if (cut.ratings) cut.ratings = cut.ratings.slice(-limits.ratings);
  for (const name of ["items", "candidates"]) if (cut[name]) cut[name] = cut[name].slice(0, limits.pairs);
  while (encoder.encode(JSON.stringify(cut)).length > limits.body_bytes) {
    const lists = Object.keys(cut).filter((name) => cut[name]?.length > 1 && Array.isArray(cut[name]));
    if (lists.length === 0) break; // the service says so itself
    const longest = lists.reduce((one, other) => (size(cut[other]) > size(cut[one]) ? other : one));
    const half = Math.ceil(cut[longest].length / 2);
    cut[longest] = longest === "ratings" ? cut.ratings.slice(-half) : cut[longest].slice(0, half);
  }
  return cut;
}

const size = (list) => JSON.stringify(list).length;
