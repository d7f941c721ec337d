// What `peers.mjs` computes from the times of frames.

/** Returns the time of the first frame from which on all frames are as they should be. */
export function since(frames, isSo) {
  const wrong = frames.findLastIndex((frame) => !isSo(frame));
  return frames[wrong + 1]?.at;
}

/**
 * Returns of each move of the pointer the milliseconds until the first frame that differs from the
 * one before, and until the last one before the next move.
 */
export function steps(sent, frames) {
  return sent.map((at, i) => {
    const until = sent[i + 1] ?? Infinity;
    const changed = frames.filter(
      (frame) => frame.at >= at && frame.at < until && frame.fromBefore > 0.01,
    );
    if (changed.length === 0) throw new Error(`step ${i} moves nothing`);
    return { begun: changed[0].at - at, done: changed.at(-1).at - at };
  });
}

/** Returns the value that a share of the values is below. */
export const quantile = (values, share) =>
  values.toSorted((a, b) => a - b)[Math.min(Math.floor(values.length * share), values.length - 1)];

/** Returns a table of the rounds of each contestant, and of the ratios to the first one. */
export function table(results) {
  const rows = Object.entries(results).map(([name, rounds]) => {
    const steps = rounds.flatMap((round) => round.steps);
    const of = (key, share) => quantile(steps.map((step) => step[key]), share);
    const [first, whole] = ['first', 'whole'].map((key) =>
      quantile(rounds.map((round) => round[key]), 0.5),
    );
    const values = [first, whole, of('begun', 0.5), of('begun', 0.95)];
    return [name, ...values, of('done', 0.5), of('done', 0.95)];
  });
  const lines = [
    '| ms | first picture | whole picture | step | p95 | step whole | p95 |',
    '|---|---|---|---|---|---|---|',
  ];
  for (const [name, ...values] of rows)
    lines.push(`| ${name} | ${values.map((value) => value.toFixed(0)).join(' | ')} |`);
  const [[, ...ours], ...others] = rows;
  for (const [name, ...values] of others) {
    const ratios = values.map((value, i) => `${(value / ours[i]).toFixed(1)} ×`);
    lines.push(`| ${name} ÷ vor | ${ratios.join(' | ')} |`);
  }
  return lines.join('\n');
}
