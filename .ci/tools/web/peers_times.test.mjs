import assert from 'node:assert/strict';
import { test } from 'node:test';

import { quantile, since, steps, table } from './peers_times.mjs';

test('a picture that is undone is not the first', () => {
  const frames = [0, 9, 0, 5, 9].map((coloured, at) => ({ at, coloured }));
  assert.equal(since(frames, ({ coloured }) => coloured >= 5), 3);
  assert.equal(since(frames, ({ coloured }) => coloured >= 0), 0);
  assert.equal(since(frames, ({ coloured }) => coloured > 9), undefined);
});

test('a step lasts from the move to the frames that differ', () => {
  const frames = [
    { at: 5, fromBefore: 1 },
    { at: 12, fromBefore: 0.001 },
    { at: 15, fromBefore: 0.2 },
    { at: 18, fromBefore: 0.3 },
    { at: 25, fromBefore: 0.2 },
  ];
  assert.deepEqual(steps([10, 20], frames), [
    { begun: 5, done: 8 },
    { begun: 5, done: 5 },
  ]);
  assert.throws(() => steps([10, 19, 20], frames), /step 1 moves nothing/);
});

test('a quantile is one of the values', () => {
  const values = [40, 10, 30, 20];
  assert.deepEqual(
    [0, 0.5, 0.95, 1].map((share) => quantile(values, share)),
    [10, 30, 40, 40],
  );
  assert.deepEqual(values, [40, 10, 30, 20]);
});

test('the table has the medians of each and the ratios to the first', () => {
  const round = (first, whole, begun, done) => ({ first, whole, steps: [{ begun, done }] });
  const results = {
    vor: [round(100, 200, 10, 20), round(110, 210, 10, 20), round(900, 900, 30, 40)],
    other: [round(330, 210, 40, 50)],
  };
  assert.deepEqual(table(results).split('\n').slice(2), [
    '| vor | 110 | 210 | 10 | 30 | 20 | 40 |',
    '| other | 330 | 210 | 40 | 40 | 50 | 50 |',
    '| other ÷ vor | 3.0 × | 1.0 × | 4.0 × | 1.3 × | 2.5 × | 1.3 × |',
  ]);
});
